package org.apache.spark.sql.delta.streamtable

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{DeltaHistoryManager, DeltaLog}
import org.apache.spark.sql.delta.actions._
import org.apache.spark.sql.delta.util.DeltaFileOperations.absolutePath
import org.json4s._
import org.json4s.JsonDSL._

/** What the log and the files hold of a table's past. */
private[streamtable] object Retained {

  /** The files of a commit: those that left the table, those with changed rows, and those of its feed, which it may switch off. */
  private case class Files(version: Long, removed: Seq[Path], changed: Seq[Path], feed: Seq[Path], switchesOff: Boolean)

  /**
   * The first commit in the log, and the first version that it can rebuild. Also the last commits after `after` whose removed
   * files (`lost_rows`, which older versions need) or changed rows (`lost_changes`) are gone. Nobody asks the storage for a file
   * that came and was not removed since.
   */
  def of(spark: SparkSession, path: String, after: Long): JValue = {
    val log = DeltaLog.forTable(spark, path)
    val first = DeltaHistoryManager.getEarliestDeltaFile(log)
    val commits = log
      .getChanges(math.max(after + 1, first))
      .map { case (version, actions) =>
        filesOf(log, version, actions)
      }
      .toList
    val removed = commits.flatMap(_.removed).toSet
    val (conf, known) = (log.newDeltaHadoopConf(), mutable.Map[Path, Boolean]())
    def lost(files: Seq[Path]) = files.exists(file => known.getOrElseUpdate(file, isGone(file, conf)))
    // Changes that begin before the feed was off are read from the files.
    val unfed =
      if (!feeds(Snapshots.latest(spark, path).metadata)) Long.MaxValue
      else commits.filter(_.switchesOff).map(_.version).maxOption.getOrElse(-1L)
    val rows = commits.reverseIterator.find(each => lost(each.removed))
    val changes = commits.reverseIterator.find { each =>
      lost(if (each.feed.isEmpty || each.version <= unfed) each.changed.filter(removed) else each.feed)
    }
    val fedAlone = commits.exists(each => unfed >= 0 && each.version > unfed && lost(each.changed.filter(removed)))
    ("commits" -> first) ~ ("tables" -> log.history.getEarliestRecreatableCommit) ~
      ("lost_rows" -> rows.map(_.version).toList) ~
      ("lost_changes" -> (changes.map(_.version).toList ++ Option.when(fedAlone)(unfed)))
  }

  private def filesOf(log: DeltaLog, version: Long, actions: Seq[Action]): Files = {
    def places(files: Seq[FileAction]) = files.flatMap(placesOf(log, _)).distinct
    Files(
      version,
      places(actions.collect { case r: RemoveFile => r }),
      places(actions.collect { case f: FileAction if f.dataChange => f }),
      places(actions.collect { case c: AddCDCFile => c }),
      actions.exists { case m: Metadata => !feeds(m); case _ => false })
  }

  /** Whether a version has a change data feed, by its metadata. */
  def feeds(metadata: Metadata): Boolean =
    metadata.configuration.get("delta.enableChangeDataFeed").contains("true")

  /** Whether one of the files, or of their deletion vectors, is not there any more. */
  def gone(log: DeltaLog, files: Seq[FileAction]): Boolean = {
    val conf = log.newDeltaHadoopConf()
    files.flatMap(placesOf(log, _)).distinct.exists(isGone(_, conf))
  }

  private def placesOf(log: DeltaLog, file: FileAction): Seq[Path] = {
    val vector = Option(file.deletionVector).filter(_.isOnDisk).map(_.absolutePath(log.dataPath))
    absolutePath(log.dataPath.toString, file.path) +: vector.toSeq
  }

  private def isGone(file: Path, conf: Configuration): Boolean =
    !file.getFileSystem(conf).exists(file) // a clone names files of other buckets
}
