package org.apache.spark.sql.delta.streamtable

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.delta.{DeltaLog, SnapshotDescriptor}
import org.apache.spark.sql.delta.actions.{
  Action,
  AddFile,
  CommitInfo,
  DeletionVectorDescriptor,
  FileAction,
  RemoveFile
}
import org.apache.spark.sql.delta.commands.cdc.CDCReader.FilePathWithTableVersion
import org.apache.spark.sql.delta.commands.cdc.CDCReaderImpl
import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}
import org.apache.spark.sql.delta.files.TahoeFileIndexWithSnapshotDescriptor
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore
import org.apache.spark.sql.streamtable.{Patches, StreamTableException}

/**
 * Delta's reader of changes, which reads a file whose deletion vector grew twice: for the rows that went, and for those that came
 * back, of which there are none. A vector that only grew, or only shrank, is handed to it as if it were the first, or gone. Of a large
 * file only the pages are read between the first and the last of the rows, where their values tell them.
 */
private[streamtable] object Changes extends CDCReaderImpl {

  /**
   * Whatever became of columns between the two versions: Python compares those that are read by their stored names and types. Rows of
   * a schema that was there for a while only came and went in the same form.
   */
  override def shouldCheckSchemaToBlockBatchRead(spark: SparkSession, log: DeltaLog, isStreaming: Boolean): Boolean =
    false

  /** A log whose beginning was cleaned up since Python looked would be read from where it begins now. */
  override def changesToDF(
      snapshot: SnapshotDescriptor,
      start: Long,
      end: Long,
      changes: Iterator[(Long, Seq[Action])],
      spark: SparkSession,
      table: Option[CatalogTable],
      isStreaming: Boolean,
      useCoarseGrainedCDC: Boolean,
      startSnapshot: Option[SnapshotDescriptor]): CDCVersionDiffInfo = {
    val found = complete(snapshot.deltaLog, start, end, changes)
    super.changesToDF(snapshot, start, end, found, spark, table, isStreaming, useCoarseGrainedCDC, startSnapshot)
  }

  private def complete(log: DeltaLog, start: Long, end: Long, changes: Iterator[(Long, Seq[Action])]) =
    new Iterator[(Long, Seq[Action])] {
      private var wanted = start

      override def hasNext: Boolean = changes.hasNext || wanted <= end && lost

      override def next(): (Long, Seq[Action]) = {
        val each = changes.next()
        if (each._1 != wanted) lost
        wanted += 1
        each
      }

      private def lost = throw StreamTableException(
        "STREAMTABLE_HISTORY_LOST",
        "55000",
        s"the log of ${log.dataPath} does not hold version $wanted any more",
        "read it anew")
    }

  override protected def scanIndex(
      spark: SparkSession,
      index: TahoeFileIndexWithSnapshotDescriptor,
      isStreaming: Boolean): DataFrame =
    super.scanIndex(spark, new Listed(index, index.matchingFiles(Nil, Nil)), isStreaming)

  override def processDeletionVectorActions(
      added: Map[FilePathWithTableVersion, AddFile],
      removed: Map[FilePathWithTableVersion, RemoveFile],
      commits: Map[Long, CommitInfo],
      log: DeltaLog,
      snapshot: SnapshotDescriptor,
      isStreaming: Boolean,
      spark: SparkSession): Seq[DataFrame] =
    if (Patches.isOn("grown vectors")) asFirst(added, removed, commits, log, snapshot, isStreaming, spark)
    else super.processDeletionVectorActions(added, removed, commits, log, snapshot, isStreaming, spark)

  private def asFirst(
      added: Map[FilePathWithTableVersion, AddFile],
      removed: Map[FilePathWithTableVersion, RemoveFile],
      commits: Map[Long, CommitInfo],
      log: DeltaLog,
      snapshot: SnapshotDescriptor,
      isStreaming: Boolean,
      spark: SparkSession): Seq[DataFrame] = {
    val store = DeletionVectorStore.createInstance(log.newDeltaHadoopConf())
    def deleted(file: FileAction): RoaringBitmapArray =
      Option(file.deletionVector).fold(new RoaringBitmapArray)(store.read(_, log.dataPath))
    val both = for {
      (file, remove) <- removed.toSeq
      add <- added.get(file)
    } yield {
      val (before, after) = (deleted(remove), deleted(add))
      val (gone, back) = (difference(after, before), difference(before, after))
      val place = for {
        first <- Seq(gone.first, back.first).flatten.minOption
        last <- Seq(gone.last, back.last).flatten.maxOption
      } yield add -> (first, last)
      if (back.isEmpty) (file, remove.copy(deletionVector = null), add.copy(deletionVector = inline(gone)), place)
      else if (gone.isEmpty) (file, remove.copy(deletionVector = inline(back)), add.copy(deletionVector = null), place)
      else (file, remove, add, place)
    }
    val (adds, removes) = (both.map(x => x._1 -> x._3).toMap, both.map(x => x._1 -> x._2).toMap)
    val read = super.processDeletionVectorActions(adds, removes, commits, log, snapshot, isStreaming, spark)
    Pages.around(log, snapshot, both.flatMap(_._4)).fold(read)(near => read.map(_.where(near)))
  }

  private def difference(left: RoaringBitmapArray, right: RoaringBitmapArray): RoaringBitmapArray = {
    val rest = left.copy()
    rest.diff(right)
    rest
  }

  private def inline(rows: RoaringBitmapArray): DeletionVectorDescriptor =
    DeletionVectorDescriptor.inlineInLog(rows.serializeAsByteArray(RoaringBitmapArrayFormat.Portable), rows.cardinality)
}
