package org.apache.spark.sql.delta.streamtable

import java.util.{ConcurrentModificationException, Map => JavaMap}

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.{Column, DataFrame, SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.expressions.aggregation.BitmapAggregator
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.delta.{DeltaLog, Snapshot}
import org.apache.spark.sql.delta.ClassicColumnConversions._
import org.apache.spark.sql.delta.actions._
import org.apache.spark.sql.delta.commands.DeletionVectorWriter
import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat, StoredBitmap}
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore
import org.apache.spark.sql.delta.util.DeltaFileOperations.absolutePath
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streamtable.Held
import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, parse, render}

/** Rows of a table by position: a bitmap of row indexes per file. */
final case class Positions(bitmaps: Map[String, RoaringBitmapArray]) {
  def count: Long = bitmaps.values.map(_.cardinality).sum
}

/** What one commit of ours changes; the arguments that Python leaves out are null. */
private[streamtable] object Commits {

  /**
   * Collects `__streamtable_file`, `__streamtable_row` of `frame` as bitmaps, built on the executors where the driver does not hold the rows
   * already. What is deleted in the table's `version` already is left out.
   */
  def positions(spark: SparkSession, frame: DataFrame, path: String, version: Long): Positions = {
    val placed = frame.where(col("__streamtable_file").isNotNull)
    val found = if (Held.isHeld(placed)) bitmapsHere(placed) else bitmapsOfExecutors(placed)
    val log = DeltaLog.forTable(spark, path)
    val fileAt = filesByPath(log, Snapshots.filesOf(Snapshots.since(spark, path, version), version))
    for ((file, rows) <- found) deleted(log, fileAt(file)).foreach(rows.diff)
    Positions(found.filterNot(_._2.isEmpty))
  }

  private def bitmapsHere(placed: DataFrame): Map[String, RoaringBitmapArray] = {
    val rows = placed.select("__streamtable_file", "__streamtable_row").collect()
    rows.groupMapReduce(_.getString(0))(row => RoaringBitmapArray(row.getLong(1))) { (some, more) =>
      some.merge(more); some
    }
  }

  private def bitmapsOfExecutors(placed: DataFrame): Map[String, RoaringBitmapArray] = {
    val aggregator = new BitmapAggregator(col("__streamtable_row").expr, RoaringBitmapArrayFormat.Portable)
    val bitmaps = placed
      .groupBy("__streamtable_file")
      .agg(Column(aggregator.toAggregateExpression(isDistinct = false)).as("rows"))
    val found = bitmaps.select("__streamtable_file", "rows.bitmap").collect()
    found.map(row => row.getString(0) -> RoaringBitmapArray.readFrom(row.getAs[Array[Byte]](1))).toMap
  }

  private def filesByPath(log: DeltaLog, files: Seq[AddFile]): Map[String, AddFile] = {
    val root = log.dataPath.toString
    files.map(f => SparkPath.fromPath(absolutePath(root, f.path)).urlEncoded -> f).toMap
  }

  private def deleted(log: DeltaLog, file: AddFile): Option[RoaringBitmapArray] =
    Option(file.deletionVector).map(
      StoredBitmap.create(_, log.dataPath).load(DeletionVectorStore.createInstance(log.newDeltaHadoopConf())))

  /**
   * One transaction: rows that go (by position, or all), rows that come, the refresh's number, schema and properties. With `alone` it
   * conflicts with any other commit of the application, also with one that has no rows. Its files are written here. The version is one of
   * the table `tableId`, where that is not null, and -1 is that of a table that nobody has made.
   */
  def prepare(
      spark: SparkSession,
      path: String,
      readVersion: Long,
      tableId: String,
      add: DataFrame,
      remove: Positions,
      replaceAll: Boolean,
      application: String,
      applicationVersion: Long,
      alone: Boolean,
      schema: String,
      properties: JavaMap[String, String]): Pending = {
    val log = DeltaLog.forTable(spark, path)
    val latest = log.update()
    Features.refuseUnknown(path, latest.protocol)
    refuseAnother(path, latest, readVersion, tableId)
    val read = if (readVersion >= 0) Snapshots.at(latest, readVersion) else new Unborn(log)
    val pending = new Pending(spark, log, read, Option.when(alone)(application), schema, properties)
    Planted.refuseLinks(path, read.metadata)
    if (add != null) Planted.refuseExpressions(path, read.metadata)
    val current = if (readVersion < 0) Nil else Snapshots.filesOf(latest, readVersion)
    val (goes, removed) =
      if (replaceAll) (current.map(_.remove), current.flatMap(_.numLogicalRecords).sum)
      else if (remove == null || remove.bitmaps.isEmpty) (Nil, 0L)
      else (without(log, current, remove), remove.count)
    // Of few rows Spark would make a file in each of many tasks.
    val comes = if (add == null) Nil else pending.write(if (Held.isHeld(add)) add.coalesce(1) else add)
    val number = SetTransaction(application, applicationVersion, Some(System.currentTimeMillis()))
    val added = comes.collect { case a: AddFile => a.numLogicalRecords.getOrElse(0L) }.sum
    val mode = if (replaceAll) SaveMode.Overwrite else SaveMode.Append
    pending.of((goes ++ comes) :+ number, mode, added, removed)
  }

  /** Another table may be at the path by now, with a version of the same number, or an older one, or none. */
  private[streamtable] def refuseAnother(path: String, latest: Snapshot, readVersion: Long, tableId: String): Unit = {
    if (latest.version < readVersion)
      throw new ConcurrentModificationException(
        s"another process has dropped the table at $path, or put an older one there")
    if (latest.version >= 0 && (readVersion < 0 || tableId != null && latest.metadata.id != tableId))
      throw new ConcurrentModificationException(s"another process has made the table at $path")
  }

  /** Has Spark compute again what it caches of the table, as after its own writes; what was read of one version stays. */
  private[streamtable] def forget(spark: SparkSession, log: DeltaLog): Unit = {
    val table = LogicalRelation(log.createRelation(snapshotToUseOpt = Some(log.unsafeVolatileSnapshot)))
    spark.sharedState.cacheManager.recacheByPlan(spark.asInstanceOf[ClassicSession], table)
  }

  /** The record of a refresh with the numbers of its rows, which are known now. */
  private[streamtable] def counted(history: String, added: Long, removed: Long): String =
    compact(
      render(
        parse(history).merge(JObject("streamtable" -> (("rows_inserted" -> added) ~ ("rows_deleted" -> removed))))))

  /** Marks rows as deleted; a file without a row left is removed whole. */
  private def without(log: DeltaLog, files: Seq[AddFile], remove: Positions): Seq[FileAction] = {
    val fileAt = filesByPath(log, files)
    val (whole, partly) = remove.bitmaps.toSeq
      .map { case (path, found) =>
        val file = fileAt(path)
        val rows = found.copy()
        deleted(log, file).foreach(rows.merge)
        (file, rows)
      }
      .partition { case (file, rows) => file.numPhysicalRecords.contains(rows.cardinality) }
    // A writer makes its file at once, also when no vector comes.
    whole.map(_._1.remove) ++ (if (partly.isEmpty) Nil else marked(log, partly))
  }

  private def marked(log: DeltaLog, files: Seq[(AddFile, RoaringBitmapArray)]): Seq[FileAction] = {
    val store = DeletionVectorStore.createInstance(log.newDeltaHadoopConf())
    val (writer, id) = DeletionVectorWriter.createWriter(store, store.pathWithFileSystem(log.dataPath))
    try {
      files.flatMap { case (file, rows) =>
        val serialized = rows.serializeAsByteArray(RoaringBitmapArrayFormat.Portable)
        val range = writer.write(serialized)
        val vector = DeletionVectorDescriptor.onDiskWithRelativePath(
          id,
          "",
          serialized.length,
          rows.cardinality,
          Some(range.offset))
        val (added, removed) = file.removeRows(vector, updateStats = true)
        Seq(removed, added)
      }
    } finally writer.close()
  }
}
