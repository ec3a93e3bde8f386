package org.apache.spark.sql.streamtable

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.connector.catalog.CatalogManager
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan, SparkStrategy}

/** What one session has to do with another. */
object Sessions {

  /**
   * A session keeps the files of a table, and the text of a function, from its first look at them on. Another session may have changed
   * both since.
   */
  def forget(session: SparkSession): Unit = {
    val state = session.sessionState
    state.catalog.invalidateAllCachedTables()
    for (registry <- Seq(state.functionRegistry, state.tableFunctionRegistry))
      registry
        .listFunction()
        .filter(_.catalog.contains(CatalogManager.SESSION_CATALOG_NAME))
        .foreach(registry.dropFunction)
  }

  /** The rows of `frame` for another session, which does not plan the query that they come from: its settings may not suit that. */
  def handed(to: SparkSession, frame: Object): Object = {
    val rows = frame.asInstanceOf[Dataset[_]]
    Dataset.ofRows(
      to.asInstanceOf[org.apache.spark.sql.classic.SparkSession],
      HandedRows(rows.queryExecution.analyzed.output, rows))
  }

  private case class HandedRows(output: Seq[Attribute], of: Dataset[_]) extends LeafNode with MultiInstanceRelation {
    override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
    override def computeStats(): Statistics = of.queryExecution.optimizedPlan.stats
  }

  private case class HandedRowsExec(output: Seq[Attribute], @transient of: Dataset[_]) extends LeafExecNode {
    override protected def doExecute(): RDD[InternalRow] = {
      val columns = schema
      of.queryExecution.toRdd.mapPartitionsWithIndexInternal { (partition, rows) =>
        val binary = UnsafeProjection.create(columns)
        binary.initialize(partition)
        rows.map(binary)
      }
    }
  }

  private object Planned extends SparkStrategy {
    override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
      case HandedRows(output, of) => Seq(HandedRowsExec(output, of))
      case Uncached(relation, _) => Seq(planLater(relation)) // for a session that excludes the rule below
      case _ => Nil
    }
  }

  /**
   * A table that Spark reads itself, whatever its cache holds of it. All sessions share the cache, which does not know what other
   * processes have written to a table without versions. For a look-up in the cache it is another table.
   */
  def uncached(relation: LeafNode): LogicalPlan = Uncached(relation, number.incrementAndGet())

  private val number = new AtomicLong

  private case class Uncached(relation: LeafNode, number: Long) extends LeafNode {
    override def output: Seq[Attribute] = relation.output
    override def isStreaming: Boolean = relation.isStreaming
    override def computeStats(): Statistics = relation.stats
  }

  /** The cache has been looked into by now. */
  private object AsItIs extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = plan.transform { case Uncached(relation, _) => relation }
  }

  def inject(extensions: SparkSessionExtensions): Unit = {
    extensions.injectOptimizerRule(_ => AsItIs)
    extensions.injectPlannerStrategy(_ => Planned)
  }
}
