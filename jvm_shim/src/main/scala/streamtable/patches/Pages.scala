package org.apache.spark.sql.delta.streamtable

import java.nio.{ByteBuffer, ByteOrder}

import scala.jdk.CollectionConverters._
import scala.util.{Try, Using}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.metadata.{BlockMetaData, ColumnChunkMetaData}
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName.{INT32, INT64}
import org.apache.spark.sql.Column
import org.apache.spark.sql.delta.{DeltaColumnMapping, DeltaLog, SnapshotDescriptor}
import org.apache.spark.sql.delta.actions.FileAction
import org.apache.spark.sql.delta.util.DeltaFileOperations.absolutePath
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.streamtable.Patches
import org.apache.spark.sql.types.{IntegerType, LongType, StructField}
import org.apache.spark.util.ThreadUtils.parmap

/**
 * Bounds of a column from Parquet's page indexes, for rows whose positions in their files are known. By such bounds a scan passes
 * over pages without these rows: it knows no positions, but it knows values.
 */
private[streamtable] object Pages {
  // Each file costs a few reads of some kilobytes, which is too much for many files, or little ones.
  private val fewFiles = 8
  private val worthwhile = 16L << 20
  private val fewColumns = 4

  /** The rows of one page; bounds of its values, where it has nothing but values; whether rows are looked for in it. */
  private case class Page(rows: Long, bounds: Option[(Long, Long)], wanted: Boolean)

  private case class Range(column: StructField, low: Long, high: Long, part: Double) {
    def condition: Column = {
      val name = col("`" + column.name.replace("`", "``") + "`")
      if (column.dataType == LongType) name.between(low, high) else name.between(lit(low.toInt), lit(high.toInt))
    }
  }

  /**
   * A condition that holds for each row between the first and the last position given for its file, and for at most half of all
   * rows. None if no column has such a condition.
   */
  def around(log: DeltaLog, table: SnapshotDescriptor, places: Seq[(FileAction, (Long, Long))]): Option[Column] = {
    val inFiles = table.metadata.schema.filterNot(field => table.metadata.partitionColumns.contains(field.name))
    val columns = inFiles.filter(field => field.dataType == IntegerType || field.dataType == LongType).take(fewColumns)
    if (!Patches.isOn("page bounds") || columns.isEmpty || places.size > fewFiles || places
        .map(_._1.getFileSize)
        .sum < worthwhile) None
    else {
      val conf = log.newDeltaHadoopConf()
      val files = parmap(places, "streamtable-pages", fewFiles) { case (file, place) =>
        Try(pages(conf, absolutePath(log.dataPath.toString, file.path), columns, place)).toOption
      }
      // A file that is gone or is no such file: who reads it says so.
      if (files.contains(None)) None
      else {
        val ranges = columns.indices.flatMap(n => range(columns(n), files.flatten.flatMap(_(n))))
        ranges.filter(_.part <= 0.5).minByOption(_.part).map(_.condition)
      }
    }
  }

  private def range(column: StructField, pages: Seq[Page]): Option[Range] = {
    val wanted = pages.filter(_.wanted).map(_.bounds)
    if (wanted.isEmpty || wanted.contains(None)) None
    else {
      val (low, high) = (wanted.flatten.map(_._1).min, wanted.flatten.map(_._2).max)
      val read = pages.filter(_.bounds.forall { case (least, most) => least <= high && most >= low })
      Some(Range(column, low, high, read.map(_.rows).sum.toDouble / pages.map(_.rows).sum))
    }
  }

  private def pages(conf: Configuration, file: Path, columns: Seq[StructField], place: (Long, Long)): Seq[Seq[Page]] =
    Using.resource(ParquetFileReader.open(HadoopInputFile.fromPath(file, conf))) { reader =>
      columns.map { column =>
        val name = Array(DeltaColumnMapping.getPhysicalName(column))
        val kind = if (column.dataType == LongType) INT64 else INT32
        for {
          group <- reader.getRowGroups.asScala.toSeq
          chunk = group.getColumns.asScala.find { each =>
            each.getPath.toArray.sameElements(name) && each.getPrimitiveType.getPrimitiveTypeName == kind
          }
          page <- chunk.flatMap(indexed(reader, group, _, place)).getOrElse(Seq(unknown(group, place)))
        } yield page
      }
    }

  private def indexed(
      reader: ParquetFileReader,
      group: BlockMetaData,
      chunk: ColumnChunkMetaData,
      place: (Long, Long)): Option[Seq[Page]] =
    for {
      values <- Option(reader.readColumnIndex(chunk))
      offsets <- Option(reader.readOffsetIndex(chunk))
      nulls <- Option(values.getNullCounts)
      if group.getRowIndexOffset >= 0
    } yield (0 until offsets.getPageCount).map { n =>
      val (first, last) = (offsets.getFirstRowIndex(n), offsets.getLastRowIndex(n, group.getRowCount))
      val bounds =
        Option.when(nulls.get(n) == 0)((number(values.getMinValues.get(n)), number(values.getMaxValues.get(n))))
      Page(last - first + 1, bounds, overlaps(group.getRowIndexOffset + first, group.getRowIndexOffset + last, place))
    }

  private def unknown(group: BlockMetaData, place: (Long, Long)): Page = {
    val first = group.getRowIndexOffset
    Page(group.getRowCount, None, first < 0 || overlaps(first, first + group.getRowCount - 1, place))
  }

  private def overlaps(first: Long, last: Long, place: (Long, Long)): Boolean = first <= place._2 && last >= place._1

  private def number(bytes: ByteBuffer): Long = {
    val plain = bytes.duplicate.order(ByteOrder.LITTLE_ENDIAN)
    if (plain.remaining == java.lang.Long.BYTES) plain.getLong else plain.getInt.toLong
  }
}
