package org.apache.spark.sql.delta.streamtable

import java.util.{LinkedHashMap, Map => JavaMap}

import scala.util.chaining._

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.delta.{DeltaLog, NoMapping, Snapshot}
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.files.TahoeBatchFileIndex
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat

/** Tables at a version, by their list of files, without reconstructing Delta's state where that can be avoided. */
private[streamtable] object Snapshots {
  private val kept = 64

  /** File lists by (table id, version): Delta's own list for an old version costs a Spark job, and a refresh needs the last one's. */
  private val files =
    java.util.Collections.synchronizedMap(new LinkedHashMap[(String, Long), Seq[AddFile]](kept, 0.75f, true) {
      override def removeEldestEntry(eldest: JavaMap.Entry[(String, Long), Seq[AddFile]]): Boolean = size > kept
    })

  def latest(spark: SparkSession, path: String): Snapshot = {
    val snapshot = DeltaLog.forTable(spark, path).update()
    if (snapshot.version < 0) throw new java.io.FileNotFoundException(s"$path is no Delta table")
    snapshot
  }

  def at(log: DeltaLog, latest: Snapshot, version: Long): Snapshot =
    if (latest.version == version) latest else log.getSnapshotAt(version)

  /** The files of a version as far as no Spark job is needed: the checksum lists them up to a threshold, reading it is 5 ms. */
  def known(latest: Snapshot, version: Long): Option[Seq[AddFile]] =
    Option(files.get((latest.metadata.id, version)))
      .orElse(Some(latest).filter(_.version == version).flatMap(_.checksumOpt).flatMap(_.allFiles))

  def filesOf(log: DeltaLog, latest: Snapshot, version: Long): Seq[AddFile] =
    known(latest, version)
      .getOrElse {
        val snapshot = at(log, latest, version)
        snapshot.checksumOpt.flatMap(_.allFiles).getOrElse(snapshot.allFiles.collect().toSeq)
      }
      .tap(files.put((latest.metadata.id, version), _))

  /**
   * The table's files at `version`, read with its latest schema: columns that were added since are NULL. With `deleted`, also the rows
   * that deletion vectors hide: to look each row of a large table up in its vector costs more than to read one narrow column of it.
   */
  def frame(spark: SparkSession, path: String, version: Long, deleted: Boolean = false): DataFrame = {
    val log = DeltaLog.forTable(spark, path)
    val snapshot = latest(spark, path)
    val index =
      new TahoeBatchFileIndex(spark, "streamtable", filesOf(log, snapshot, version), log, log.dataPath, snapshot)
    val relation = log.buildHadoopFsRelationWithFileIndex(snapshot, index, bucketSpec = None)
    // Delta's own format is Parquet with vectors and column mapping; without either, Spark's reads the same files.
    val plain = deleted && snapshot.metadata.columnMappingMode == NoMapping
    frame(spark, LogicalRelation(if (plain) relation.copy(fileFormat = new ParquetFileFormat)(spark) else relation))
  }

  def frame(spark: SparkSession, plan: org.apache.spark.sql.catalyst.plans.logical.LogicalPlan): DataFrame =
    org.apache.spark.sql.classic.Dataset.ofRows(spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession], plan)
}
