package org.apache.spark.sql.delta.streamtable

import scala.jdk.CollectionConverters._
import scala.util.chaining._

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.delta.{DeltaLog, NoMapping, Snapshot}
import org.apache.spark.sql.delta.actions.{AddFile, InMemoryLogReplay}
import org.apache.spark.sql.delta.files.TahoeBatchFileIndex
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.streamtable.Patches

/** Tables at a version, by their list of files, without reconstructing Delta's state where that can be avoided. */
private[streamtable] object Snapshots {
  private val (kept, manyFiles, manyTables) = (64, 200000, 10000)
  private val farBehind = 100

  /** A table, which is another one where its files were copied to, or after it was made anew. */
  private type Table = (Path, String)

  private def table(latest: Snapshot): Table = (latest.deltaLog.dataPath, latest.metadata.id)

  /** File lists by version: Delta's own list of a version costs a Spark job where its checksum does not have it. */
  private val files = Recent.map[(Table, Long), Seq[AddFile]](lists =>
    lists.size > kept || lists.size > 2 && lists.values.asScala.map(_.size).sum > manyFiles)

  /** The latest version of each table that this driver saw, and its commit. */
  private val seen = Recent.map[Path, (Long, Option[String])](_.size > manyTables)

  def latest(spark: SparkSession, path: String): Snapshot = {
    Planted.refuseHiddenLinks(path)
    val found = listed(spark, path)
    val snapshot =
      if (goesOn(found)) found
      else {
        DeltaLog.invalidateCache(spark, found.deltaLog.dataPath) // it keeps a checkpoint that it knows by its version
        listed(spark, path)
      }
    seen.put(snapshot.deltaLog.dataPath, (snapshot.version, CommitIds.of(snapshot)))
    snapshot
  }

  private def listed(spark: SparkSession, path: String): Snapshot = {
    val snapshot = DeltaLog.forTable(spark, path).update()
    if (snapshot.version < 0) throw new java.io.FileNotFoundException(s"$path is no Delta table")
    Features.refuseUnknown(path, snapshot.protocol)
    snapshot
  }

  /**
   * False if the log has another commit of the latest number that was seen: an older copy of the folder took its place, and was
   * written to. Lists of files of versions that are gone are forgotten, because other versions may get their numbers.
   */
  private def goesOn(latest: Snapshot): Boolean = {
    val of = latest.deltaLog.dataPath
    Option(seen.get(of)).forall { case (version, commit) =>
      val same = CommitIds.at(latest, version).forall(now => commit.forall(_ == now))
      val upto = if (same) latest.version else -1L
      if (upto < version) files.keySet.removeIf((key: (Table, Long)) => key._1._1 == of && key._2 > upto)
      same
    }
  }

  /**
   * The table as this driver knows it, where it knows `version`; else the latest. Whoever has looked up a version need not list the log
   * again, for which an object store takes a request and its time.
   */
  def since(spark: SparkSession, path: String, version: Long): Snapshot = {
    val known = DeltaLog.forTable(spark, path).unsafeVolatileSnapshot
    if (version < 0 || known.version < version) latest(spark, path)
    else {
      Planted.refuseHiddenLinks(path)
      Features.refuseUnknown(path, known.protocol)
      known
    }
  }

  def at(latest: Snapshot, version: Long): Snapshot =
    if (latest.version == version) latest else latest.deltaLog.getSnapshotAt(version)

  /**
   * The files of a version as far as no Spark job is needed: the checksum lists them up to a threshold (50 files), which takes 5 ms to
   * read. From a list of an earlier version, as of the refresh before this one, the log leads to this one.
   */
  private def known(latest: Snapshot, version: Long): Option[Seq[AddFile]] =
    if (!Patches.isOn("files of a version")) None
    else
      Option(files.get((table(latest), version)))
        .orElse(Some(latest).filter(_.version == version).flatMap(_.checksumOpt).flatMap(_.allFiles))
        .orElse(replayed(latest, version).map(_.tap(files.put((table(latest), version), _))))

  private def replayed(latest: Snapshot, version: Long): Option[Seq[AddFile]] = {
    val of = table(latest)
    val before = files.synchronized(files.keySet.asScala.collect {
      case (`of`, each) if each < version && each >= version - farBehind => each
    }.maxOption)
    for {
      start <- before
      base <- Option(files.get((of, start)))
      commits = latest.deltaLog.getChanges(start + 1).takeWhile(_._1 <= version).toSeq
      if commits.map(_._1) == (start + 1 to version) // what the log lost, Delta's snapshot knows from a checkpoint
    } yield {
      val replay = new InMemoryLogReplay(None, None)
      replay.append(start, base.iterator)
      commits.foreach { case (each, actions) => replay.append(each, actions.iterator) }
      replay.allFiles
    }
  }

  def filesOf(latest: Snapshot, version: Long): Seq[AddFile] =
    known(latest, version)
      .getOrElse {
        val snapshot = at(latest, version)
        snapshot.checksumOpt.flatMap(_.allFiles).getOrElse(snapshot.allFiles.collect().toSeq)
      }
      .tap(files.put((table(latest), version), _))

  /**
   * Rows and bytes of a version, without a Spark job; None where the table has no checksum. Where its files are not known, or do not tell
   * their rows, these are estimated by those of the version's commit, and at last by the columns.
   */
  def rowsAndBytes(latest: Snapshot, version: Long): Option[(Long, Long)] = {
    val listed = known(latest, version)
    for (bytes <- listed.map(_.map(_.size).sum).orElse(latest.checksumOpt.map(_.tableSizeBytes))) yield {
      val counted = listed.filter(_.forall(_.numLogicalRecords.isDefined)).map(_.flatMap(_.numLogicalRecords).sum)
      (counted.getOrElse(math.round(bytes / bytesPerRow(latest, version))), bytes)
    }
  }

  private def bytesPerRow(latest: Snapshot, version: Long): Double = {
    val touched = latest.deltaLog.getChanges(version).take(1).flatMap(_._2).collect { case file: AddFile => file }.toSeq
    val told = touched.flatMap(file => file.numPhysicalRecords.map(_ -> file.size))
    val (rows, bytes) = (told.map(_._1).sum, told.map(_._2).sum)
    if (rows > 0 && bytes > 0) bytes.toDouble / rows else 4.0 * math.max(latest.schema.size, 1)
  }

  /**
   * The table's files at `version`, read with its latest schema: columns that were added since are NULL. With `deleted`, also the
   * rows that deletion vectors hide. One narrow column of a large table is read faster than each of its rows is looked up in a
   * vector.
   */
  def frame(spark: SparkSession, path: String, version: Long, deleted: Boolean = false): DataFrame = {
    val log = DeltaLog.forTable(spark, path)
    val snapshot = since(spark, path, version)
    val files = filesOf(snapshot, version)
    Layouts.refuseOthers(snapshot, version, files)
    val index = new TahoeBatchFileIndex(spark, "streamtable", files, log, log.dataPath, snapshot)
    val relation = log.buildHadoopFsRelationWithFileIndex(snapshot, new Listed(index, files), bucketSpec = None)
    // Delta's own format is Parquet with vectors and column mapping; without either, Spark's reads the same files.
    val plain = deleted && snapshot.metadata.columnMappingMode == NoMapping
    frame(spark, LogicalRelation(if (plain) relation.copy(fileFormat = new ParquetFileFormat)(spark) else relation))
  }

  def frame(spark: SparkSession, plan: org.apache.spark.sql.catalyst.plans.logical.LogicalPlan): DataFrame =
    org.apache.spark.sql.classic.Dataset.ofRows(spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession], plan)
}
