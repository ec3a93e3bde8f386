package org.apache.spark.sql.delta.streamtable

import org.apache.spark.sql.delta.Snapshot
import org.apache.spark.sql.delta.actions.{Action, AddFile, Metadata}
import org.apache.spark.sql.streamtable.StreamTableException

/**
 * The columns of partitions, as files call them. Delta reads every file by the partitions of one version: values of others are not in
 * the file, or are not told by its path.
 */
private[streamtable] object Layouts {

  def of(snapshot: Snapshot): Set[String] = of(snapshot.metadata)

  def of(metadata: Metadata): Set[String] = metadata.physicalPartitionColumns.toSet

  /** Each set of columns once, in the order of their names. */
  def of(actions: Seq[Action])(columns: PartialFunction[Action, Iterable[String]]): List[List[String]] =
    actions.collect(columns.andThen(_.toList.sorted)).distinct.toList

  /** Raises an error where the files of a version cannot be read by the partitions of a later one. */
  def refuseOthers(reading: Snapshot, version: Long, files: Seq[AddFile]): Unit = {
    lazy val now = of(reading)
    // Some writers leave out NULL.
    def other(file: AddFile) = !file.partitionValues.keySet.subsetOf(now)
    def lacks(file: AddFile) = file.partitionValues.size < now.size
    if (version != reading.version && (files.exists(other) || files.exists(lacks) && moved(reading, version)))
      refuse(reading)
  }

  /** Raises an error where commits up to a version cannot be read by the partitions of a later one. `known` are theirs, if they tell. */
  def refuseOthers(reading: Snapshot, upto: Long, known: Option[Set[String]]): Unit =
    if (upto < reading.version) {
      val now = of(reading)
      val others = known.fold(moved(reading, upto)) { columns =>
        !columns.subsetOf(now) || columns.size < now.size && moved(reading, upto)
      }
      if (others) refuse(reading)
    }

  private def moved(reading: Snapshot, version: Long): Boolean = {
    val since = reading.deltaLog.getChanges(version + 1).takeWhile(_._1 <= reading.version).flatMap(_._2)
    since.exists(_.isInstanceOf[Metadata]) && of(Snapshots.at(reading, version)) != of(reading)
  }

  private def refuse(reading: Snapshot) = throw StreamTableException(
    "STREAMTABLE_HISTORY_LOST",
    "55000",
    s"the table at ${reading.deltaLog.dataPath} was written anew with other partitions: rows of before cannot be read any more",
    "read it anew")
}
