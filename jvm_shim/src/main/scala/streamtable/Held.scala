package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Cast, Literal}
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.types.{DataType, DateType, DecimalType, IntegralType, StringType}

/** Small results that later plans read: as a relation of the driver they are planned, joined and found to be empty without a job. */
object Held {

  /** All rows of `frame` as such a relation. */
  def all(frame: Object): Object = local(frame, _.executeCollect())

  /** The rows of `frame` as such a relation, or null when there are more than `most`. */
  def some(frame: Object, most: Int): Object = local(frame, _.executeTake(most + 1), most)

  private def local(frame: Object, run: SparkPlan => Array[InternalRow], most: Int = Int.MaxValue): Object = {
    val query = frame.asInstanceOf[Dataset[_]].queryExecution
    val rows = SQLExecution.withNewExecutionId(query, Some("hold"))(run(query.executedPlan))
    if (rows.length > most) null
    else Dataset.ofRows(query.sparkSession, LocalRelation(query.analyzed.output, rows.map(_.copy()).toIndexedSeq))
  }

  /**
   * The least and the greatest value per column of such a relation, as text that reads back as the same value; null where there is no
   * value, or none whose text would. Of any other frame, null.
   */
  def extents(frame: Object): Array[Array[String]] =
    frame.asInstanceOf[Dataset[_]].queryExecution.analyzed match {
      case relation: LocalRelation =>
        relation.output.zipWithIndex.map { case (column, n) => extent(column.dataType, relation.data, n) }.toArray
      case _ => null
    }

  private def extent(kind: DataType, rows: Seq[InternalRow], n: Int): Array[String] = kind match {
    case _: IntegralType | DateType | _: DecimalType =>
      val values = rows.iterator.filterNot(_.isNullAt(n)).map(_.get(n, kind)).toSeq
      implicit val order: Ordering[Any] = TypeUtils.getInterpretedOrdering(kind)
      if (values.isEmpty) null
      else Array(values.min, values.max).map(value => Cast(Literal(value, kind), StringType).eval(null).toString)
    case _ => null
  }
}
