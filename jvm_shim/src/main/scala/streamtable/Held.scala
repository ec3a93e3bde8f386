package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Cast, Literal}
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.types.{DataType, DateType, DecimalType, IntegralType, StringType}
import org.json4s.{JArray, JObject, JString}
import org.json4s.jackson.JsonMethods.compact

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
   * The least and the greatest value of the columns of such a relation, `{"name": [least, greatest]}`, as text that
   * reads back as the same value; a column without a value, or of another type, is left out. Of any other frame, nothing.
   */
  def extents(frame: Object): String = {
    val known = frame.asInstanceOf[Dataset[_]].queryExecution.analyzed match {
      case LocalRelation(output, rows, _, _) =>
        output.zipWithIndex.flatMap { case (c, n) => extent(c.dataType, rows, n).map(c.name -> _) }
      case _ => Nil
    }
    compact(JObject(known.map { case (name, pair) => name -> JArray(pair.map(JString(_))) }.toList))
  }

  private def extent(kind: DataType, rows: Seq[InternalRow], n: Int): Option[List[String]] = kind match {
    case _: IntegralType | DateType | _: DecimalType =>
      val values = rows.filterNot(_.isNullAt(n)).map(_.get(n, kind))
      implicit val order: Ordering[Any] = TypeUtils.getInterpretedOrdering(kind)
      def text(value: Any): String = Cast(Literal(value, kind), StringType).eval(null).toString
      Option.when(values.nonEmpty)(List(text(values.min), text(values.max)))
    case _ => None
  }
}
