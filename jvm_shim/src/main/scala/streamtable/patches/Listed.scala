package org.apache.spark.sql.delta.streamtable

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.Literal.TrueLiteral
import org.apache.spark.sql.delta.RowIndexFilterType
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.files.TahoeFileIndexWithSnapshotDescriptor
import org.apache.spark.sql.streamtable.Patches
import org.apache.spark.sql.types.StructType

/**
 * The files of a relation, listed once. Delta filters its list by a query, twice for each scan that is planned, even without a
 * filter. A refresh plans many queries over the same relations.
 */
private[streamtable] class Listed(index: TahoeFileIndexWithSnapshotDescriptor, files: => Seq[AddFile])
    extends TahoeFileIndexWithSnapshotDescriptor(index.spark, index.deltaLog, index.path, index) {

  private lazy val all = files

  override def matchingFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[AddFile] =
    if (Patches.isOn("listed once") && partitionFilters.forall(_ == TrueLiteral)) all
    else index.matchingFiles(partitionFilters, dataFilters)

  override def partitionSchema: StructType = index.partitionSchema
  override def rowIndexFilters: Option[Map[String, RowIndexFilterType]] = index.rowIndexFilters
  override def inputFiles: Array[String] = index.inputFiles
  override def sizeInBytes: Long = index.sizeInBytes
  override def refresh(): Unit = index.refresh()
}
