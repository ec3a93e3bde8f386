package org.apache.spark.sql.delta.streamtable

import java.nio.file.{Files, Path => JavaPath, Paths}

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.actions.Metadata
import org.apache.spark.sql.delta.constraints.Constraints
import org.apache.spark.sql.streamtable.StreamTableException

/**
 * Links and expressions that anyone with write access can plant in our folders. We refuse both: they would run with the rights of
 * whoever refreshes.
 */
private[streamtable] object Planted {
  private val hidden = "/_streamtable"
  private val expressions = Seq("delta.invariants", "delta.generationExpression")

  /** A write evaluates what the log says of rows: constraints, invariants, generated columns. Tables of ours have none. */
  def refuseExpressions(path: String, metadata: Metadata): Unit =
    if (isOurs(path, metadata)) {
      val named = Constraints.getCheckConstraintNames(metadata) ++
        expressions.filter(key => Option(metadata.schemaString).exists(_.contains(s"\"$key\":")))
      named.headOption.foreach(name =>
        refuse(s"the log of $path has the expression $name, which no refresh made; nothing was evaluated"))
    }

  /** Of a table that is ours by its metadata, its log is no link; of one in a hidden folder, nothing is below the table that it is for. */
  def refuseLinks(path: String, metadata: Metadata): Unit = if (isOurs(path, metadata)) refuseLinks(path)

  def refuseHiddenLinks(path: String): Unit = if (isHidden(path)) refuseLinks(path)

  /** What is deleted or rewritten as a table's own lies below its hidden folder, and no link is on the way. */
  def refuseOutside(spark: SparkSession, table: String, path: String): Unit = {
    val root = new Path(table)
    // The first takes the steps upwards out of the text, the second the slash that they leave.
    val found = new Path(new Path(path).toString)
    val fs = root.getFileSystem(spark.sessionState.newHadoopConf())
    val around = fs.makeQualified(new Path(s"$table$hidden"))
    val above = Iterator.iterate(found.getParent)(_.getParent).takeWhile(_ != null)
    val same = found.toUri.getScheme == null || found.toUri.getScheme == fs.getUri.getScheme
    if (!same || !above.map(fs.makeQualified).contains(around))
      refuse(s"$path is not below $around, where the table keeps its own; nothing was read, written or deleted there")
    refuseLinks(path)
  }

  private def refuseLinks(path: String): Unit = {
    val uri = new Path(path).toUri
    if (uri.getScheme == null || uri.getScheme == "file") {
      val (table, below) = uri.getPath.splitAt(uri.getPath.indexOf(hidden) match {
        case -1 => uri.getPath.length; case n => n
      })
      val steps =
        s"$below/_delta_log".split('/').filter(_.nonEmpty).scanLeft(Paths.get(table): JavaPath)(_.resolve(_)).tail
      steps
        .find(Files.isSymbolicLink)
        .foreach(link => refuse(s"$link is a link, which no refresh made; nothing was read or written"))
    }
  }

  private def isHidden(path: String) = new Path(path).toUri.getPath.contains(s"$hidden/")

  private def isOurs(path: String, metadata: Metadata) =
    isHidden(path) || metadata.configuration.keys.exists(key =>
      key == "streamtable.format" || key.startsWith("streamtable.object."))

  private def refuse(reason: String) =
    throw StreamTableException(
      "STREAMTABLE_DEFINITION_NOT_ACCEPTED",
      "42501",
      reason,
      "find out who wrote it (DESCRIBE HISTORY), then DROP STREAM TABLE and create it again")
}
