package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}

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
}
