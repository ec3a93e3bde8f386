package org.apache.spark.sql.streamtable

import org.apache.spark.SparkException
import org.apache.spark.internal.config.MAX_RESULT_SIZE
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Cast, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LocalLimit, LocalRelation}
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.types.{DataType, DateType, DecimalType, IntegralType, StringType}
import org.json4s.{JArray, JObject, JString}
import org.json4s.jackson.JsonMethods.compact

/** Small results that later plans read: as a relation of the driver they are planned, joined and found to be empty without a job. */
object Held {

  /** The rows of `frame`, of which no more than `most` are expected, as such a relation, by one job; null when there are more. */
  def expected(frame: Object, most: Int): Object = {
    val whole = frame.asInstanceOf[Dataset[_]]
    // However wrong the expectation is: no partition hands more over.
    local(
      Dataset.ofRows(whole.sparkSession, LocalLimit(Literal(most + 1), whole.logicalPlan)),
      _.executeCollect(),
      most)
  }

  /** The rows of `frame` as such a relation, or null when there are more than `most`: one partition is tried first. */
  def some(frame: Object, most: Int): Object = local(frame.asInstanceOf[Dataset[_]], _.executeTake(most + 1), most)

  private def local(frame: Dataset[_], run: SparkPlan => Array[InternalRow], most: Int): Object =
    try {
      val query = frame.queryExecution
      val rows = SQLExecution.withNewExecutionId(query, Some("hold"))(run(query.executedPlan))
      if (rows.length > most) null
      else Dataset.ofRows(query.sparkSession, LocalRelation(query.analyzed.output, rows.map(_.copy()).toIndexedSeq))
    } catch { // few rows, but long ones
      case e: SparkException if e.getMessage.contains(MAX_RESULT_SIZE.key) => null
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
