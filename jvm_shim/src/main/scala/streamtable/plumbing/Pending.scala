package org.apache.spark.sql.delta.streamtable

import java.util.{Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SaveMode, SparkSession}
import org.apache.spark.sql.connector.catalog.TableCatalog.PROP_COMMENT
import org.apache.spark.sql.connector.expressions.{FieldReference, NamedReference}
import org.apache.spark.sql.delta.{
  DeltaConfigs,
  DeltaLog,
  DeltaOperations,
  DummySnapshot,
  OptimisticTransaction,
  Snapshot,
  VersionChecksum
}
import org.apache.spark.sql.delta.actions._
import org.apache.spark.sql.delta.files.DelayedCommitProtocol
import org.apache.spark.sql.delta.schema.SchemaMergingUtils
import org.apache.spark.sql.delta.skipping.clustering.ClusteredTableUtils
import org.apache.spark.sql.delta.skipping.clustering.temp.ClusterBySpec
import org.apache.spark.sql.delta.util.DeltaFileOperations.absolutePath
import org.apache.spark.sql.streamtable.{PartitionValues, Patches}
import org.apache.spark.sql.types.{MetadataBuilder, StructType}
import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

/**
 * A commit whose files are written, and which is made on top of `read`, or of a later version where nothing but metadata came in between.
 * `alone` is the application of which no other commit may come in between.
 */
private[streamtable] final class Pending(
    spark: SparkSession,
    log: DeltaLog,
    read: Snapshot,
    alone: Option[String],
    schema: String,
    properties: JavaMap[String, String]) {

  /** The columns, and how the table is laid out by some of them, where that changes. */
  private val (columns, layout) = Option(schema).map(parse(_)) match {
    case Some(JObject(fields)) if fields.exists(_._1 == "layout") =>
      val (layout, columns) = fields.partition(_._1 == "layout")
      (compact(render(JObject(columns))), layout.head._2)
    case _ => (schema, JNothing)
  }

  private def laidOut(kind: String): Option[Seq[String]] = layout \ kind match {
    case JArray(names) => Some(names.collect { case JString(name) => name })
    case _ => None
  }

  /** The properties, those of Delta in its own spelling, by which it keeps them. */
  private val wanted = Option(properties).map(_.asScala.toMap).getOrElse(Map.empty).map { case (key, value) =>
    DeltaConfigs.normalizeConfigKey(Some(key)).getOrElse(key) -> value
  }

  /** Properties that this commit changes, without those that it only repeats. */
  private val changed = wanted.filter {
    case (PROP_COMMENT, comment) => comment != read.metadata.description
    case (key, value) => read.metadata.configuration.get(key).orNull != value
  }
  private var transaction = on(read)
  private var actions = Seq.empty[Action]
  private var mode: SaveMode = SaveMode.Append
  private var added, removed = 0L
  private var frontier, history = Option.empty[String]

  private def on(snapshot: Snapshot): OptimisticTransaction with Writing = {
    val opened = alone.fold(new OptimisticTransaction(log, None, snapshot) with Writing)(
      new Numbered(log, None, snapshot, _) with Writing)
    describe(opened)
    // Whatever else changed the table since makes what was computed wrong: read everything, so that any such commit conflicts.
    opened.readWholeTable()
    opened
  }

  private def describe(transaction: OptimisticTransaction): Unit =
    if (schema != null || changed.nonEmpty || (properties != null && transaction.readVersion < 0)) {
      val known = transaction.metadata
      val (gone, set) = (changed - PROP_COMMENT).partition(_._2 == null)
      val described = known.copy(
        schemaString = Option(columns).getOrElse(known.schemaString),
        partitionColumns = laidOut("partitioned_by").getOrElse(known.partitionColumns),
        description = changed.getOrElse(PROP_COMMENT, known.description),
        configuration = known.configuration -- gone.keys ++ DeltaConfigs.validateConfigurations(set) ++ clusters)
      if (transaction.readVersion < 0) transaction.updateMetadataForNewTable(described)
      else if (schema != null) transaction.updateMetadataForTableOverwrite(described)
      else transaction.updateMetadata(described)
    }

  /** The property by which a table can be clustered. */
  private def clusters: Map[String, String] =
    if (laidOut("clustered_by").exists(_.nonEmpty)) ClusteredTableUtils.getTableFeatureProperties(Map.empty)
    else Map.empty

  /** By which columns the table is clustered from now on, where that changes. */
  private def clustering: Seq[Action] = laidOut("clustered_by").toSeq.flatMap { names =>
    val references: Seq[NamedReference] = names.map(name => FieldReference(Seq(name)))
    if (names.isEmpty) ClusteredTableUtils.getDomainMetadataFromTransaction(None, transaction)
    else ClusteredTableUtils.getDomainMetadataFromTransaction(Some(ClusterBySpec(references)), transaction)
  }

  /** Writes files. Of a task without rows Delta commits none, and would leave the one that Spark wrote for want of rows. */
  private[streamtable] def write(rows: DataFrame): Seq[FileAction] = {
    val files =
      transaction.writeFiles(PartitionValues.checked(rows, transaction.metadata.partitionColumns))
    val kept = files.map(_.path).toSet
    for (file <- transaction.written if !kept(file.path)) {
      val path = absolutePath(log.dataPath.toString, file.path)
      path.getFileSystem(log.newDeltaHadoopConf()).delete(path, false)
    }
    files
  }

  private[streamtable] def of(actions: Seq[Action], mode: SaveMode, added: Long, removed: Long): Pending = {
    this.actions = actions ++ clustering
    this.mode = mode
    this.added = added
    this.removed = removed
    this
  }

  /** What the commit says besides: they may tell how long it took to write the files. Null where there is none. */
  def tell(frontier: String, history: String): Unit = {
    this.frontier = Option(frontier)
    this.history = Option(history).map(Commits.counted(_, added, removed))
  }

  /** Commits, and gives the version and how many rows came and went. */
  def commit(): String = spark.withActive {
    if (read.version >= 0) {
      val now = DeltaLog.forTable(spark, log.dataPath).update()
      Commits.refuseAnother(log.dataPath.toString, now, read.version, read.metadata.id)
    }
    val told = frontier.map(DomainMetadata("streamtable", _, removed = false))
    val version = transaction.commit(actions ++ told, DeltaOperations.Write(mode, userMetadata = history))
    Commits.forget(spark, log)
    compact(render(JArray(List(JLong(version), JLong(added), JLong(removed)))))
  }

  /**
   * After a conflict: the properties as they were read and as they are, where nothing else came in between. The next `commit` is on top of
   * them. Null where more than properties changed, or where both changed the same.
   */
  def meanwhile(): String = spark.withActive {
    val now = log.update()
    val since = log.getChanges(read.version + 1).takeWhile(_._1 <= now.version).toSeq
    val complete = since.map(_._1) == (read.version + 1 to now.version)
    if (complete && since.flatMap(_._2).forall(movesNothing) && like(now) && !meets(now)) {
      transaction = on(now)
      compact(render(List(read.metadata.configuration, now.metadata.configuration)))
    } else null
  }

  private def movesNothing(action: Action): Boolean = action match {
    case number: SetTransaction => !alone.contains(number.appId)
    case _: Metadata | _: CommitInfo => true
    case _ => false
  }

  /** Whether the table is the one that was read, but for its properties and comments. A schema of our own would undo those of columns. */
  private def like(now: Snapshot): Boolean = {
    val (before, after) = (read.metadata, now.metadata)
    val same = before.copy(configuration = after.configuration, description = after.description)
    read.protocol == now.protocol && (after == same ||
      schema == null && uncommented(after.schema) == uncommented(before.schema) &&
      after == same.copy(schemaString = after.schemaString))
  }

  private def uncommented(columns: StructType): StructType =
    SchemaMergingUtils.transformColumns(columns) { (_, field, _) =>
      field.copy(metadata = new MetadataBuilder().withMetadata(field.metadata).remove("comment").build())
    }

  private def meets(now: Snapshot): Boolean = changed.keys.exists {
    case PROP_COMMENT => now.metadata.description != read.metadata.description
    case key => now.metadata.configuration.get(key) != read.metadata.configuration.get(key)
  }
}

/** A transaction that knows which files it wrote, also those that it does not commit. */
private trait Writing extends OptimisticTransaction {
  private var committers = Seq.empty[DelayedCommitProtocol]

  override protected def getCommitter(outputPath: Path): DelayedCommitProtocol = {
    val committer = super.getCommitter(outputPath)
    committers :+= committer
    committer
  }

  def written: Seq[AddFile] = committers.flatMap(_.addedStatuses)
}

/** A table before its first commit, which is known to have no files: Delta would ask by a query for its checksum. */
private class Unborn(log: DeltaLog) extends DummySnapshot(log.logPath, log) {
  override def computeChecksum: VersionChecksum = {
    val own = super.computeChecksum
    if (Patches.isOn("empty checksum")) own.copy(allFiles = Some(Nil)) else own
  }
}
