package org.apache.spark.sql.streamtable

import org.apache.spark.SparkException
import org.apache.spark.internal.config.MAX_RESULT_SIZE
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.{InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, Cast, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{
  Filter,
  LeafNode,
  LocalRelation,
  LogicalPlan,
  Project,
  Statistics,
  SubqueryAlias,
  Union,
  View
}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan, SparkStrategy, SQLExecution, UnaryExecNode}
import org.apache.spark.sql.execution.command.ViewHelper
import org.apache.spark.sql.types.{DataType, DateType, DecimalType, IntegralType, StringType}
import org.json4s.{JArray, JObject, JString}
import org.json4s.jackson.JsonMethods.{compact, parse}

/**
 * Rows that the driver has, as a leaf that rules do not look into. Spark's LocalRelation has its rows in the node, and each rule
 * that looks for expressions goes through all of them.
 */
case class HeldRows(output: Seq[Attribute], held: HeldRows.Rows) extends LeafNode with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def maxRows: Option[Long] = Some(held.rows.length)
  override def computeStats(): Statistics = LocalRelation(output, held.rows).computeStats()
}

object HeldRows {

  /** No collection to those who look through a node; equal to itself alone. */
  final class Rows(val rows: IndexedSeq[InternalRow])

  def inject(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPreCBORule(_ => Local)
    extensions.injectPlannerStrategy(_ => Planned)
  }

  /** What rules came to last evaluate filters and projections of Spark's relation, and see which is empty. */
  private object Local extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = plan.transform { case HeldRows(output, held) =>
      LocalRelation(output, held.rows)
    }
  }

  /** For a session that excludes the rule above. */
  private object Planned extends SparkStrategy {
    override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
      case HeldRows(output, held) => Seq(LocalTableScanExec(output, held.rows, None))
      case _ => Nil
    }
  }
}

/** Small results that later plans read: as a relation of the driver they are planned, joined and found to be empty without a job. */
object Held {

  /** Up to this many rows stay in a LocalRelation, which Spark's rules scan. */
  private val Folded = 1000

  /** The rows of `frame`, of which no more than `most` are expected, as such a relation, by one job; null when there are more. */
  def expected(frame: Object, most: Int): Object = {
    val run = (plan: SparkPlan) =>
      plan match {
        case rows: LocalTableScanExec => rows.executeTake(most + 1) // without a job
        case _ if Patches.isOn("held rows") => AtMost(most + 1, plan).executeCollect()
        case _ => plan.executeTake(most + 1)
      }
    local(frame.asInstanceOf[Dataset[_]], run, most)
  }

  /**
   * However wrong an expectation is, no partition hands more rows over. Spark's LIMIT would have its own code compiled each time: it
   * counts in a variable that is numbered anew in each plan.
   */
  private case class AtMost(most: Int, child: SparkPlan) extends UnaryExecNode {
    override def output: Seq[Attribute] = child.output
    override protected def doExecute(): RDD[InternalRow] = {
      val n = most // a task is not to be sent the plan
      child.execute().mapPartitionsInternal(_.take(n))
    }
    override protected def withNewChildInternal(newChild: SparkPlan): SparkPlan = copy(child = newChild)
  }

  /** The rows of `frame` as such a relation, or null when there are more than `most`: one partition is tried first. */
  def some(frame: Object, most: Int): Object = local(frame.asInstanceOf[Dataset[_]], _.executeTake(most + 1), most)

  /** Persists `frame`, and returns a leaf over the cached rows. A plan over the leaf is analysed no deeper than the leaf. */
  def kept(frame: Object): Object = {
    val whole = frame.asInstanceOf[Dataset[_]].persist()
    val cached = whole.sparkSession.sharedState.cacheManager
    Dataset.ofRows(whole.sparkSession, cached.useCachedData(whole.queryExecution.normalized))
  }

  /** A relation of no rows with the columns of `frame`. */
  def empty(frame: Object): Object = {
    val whole = frame.asInstanceOf[Dataset[_]]
    Dataset.ofRows(whole.sparkSession, LocalRelation(whole.queryExecution.analyzed.output))
  }

  /** Whether `frame` has no more rows than the relations of the driver that it reads. */
  def isHeld(frame: Object): Boolean = !frame.asInstanceOf[Dataset[_]].queryExecution.analyzed.exists {
    case _: LocalRelation | _: HeldRows | _: Project | _: Filter | _: Union | _: SubqueryAlias | _: View => false
    case _ => true
  }

  /** Names `frame` in its session as a temporary view; Spark's own way there plans and runs a command. */
  def named(frame: Object, name: String): Unit = {
    val whole = frame.asInstanceOf[Dataset[_]]
    val (plan, session) = (SessionWindows.unmarked(whole.logicalPlan), whole.sparkSession)
    val catalog = session.sessionState.catalog
    val view = ViewHelper.createTemporaryViewRelation(
      TableIdentifier(name),
      session,
      replace = true,
      catalog.getRawTempView,
      originalText = None,
      plan,
      plan,
      Nil)
    catalog.createTempView(name, view, overrideIfExists = true)
  }

  /** Forgets the views of these names, a list in JSON, that `named` made; Spark's own way looks for each in what is kept. */
  def forget(session: SparkSession, names: String): Unit = {
    val catalog = session.sessionState.catalog
    for (JString(name) <- parse(names).children) catalog.dropTempView(name)
  }

  private def local(frame: Dataset[_], run: SparkPlan => Array[InternalRow], most: Int): Object =
    try {
      val query = frame.queryExecution
      val rows = SQLExecution.withNewExecutionId(query, Some("hold"))(run(query.executedPlan))
      if (rows.length > most) null
      else {
        val (output, copies) = (query.analyzed.output, rows.map(_.copy()).toIndexedSeq)
        val few = copies.length <= Folded || !Patches.isOn("held rows") // the first rules already see what is empty
        val leaf = if (few) LocalRelation(output, copies) else HeldRows(output, new HeldRows.Rows(copies))
        Dataset.ofRows(query.sparkSession, leaf)
      }
    } catch { // few rows, but long ones
      case e: SparkException if e.getMessage.contains(MAX_RESULT_SIZE.key) => null
    }

  /**
   * The least and the greatest value of each column of such a relation, `{"name": [least, greatest]}`, as text that reads back as
   * the same value. A column without a value, or of another type, is left out. Of any other frame, nothing.
   */
  def extents(frame: Object): String = {
    val (columns, rows) = frame.asInstanceOf[Dataset[_]].queryExecution.analyzed match {
      case LocalRelation(output, rows, _, _) => (output, rows)
      case HeldRows(output, held) => (output, held.rows)
      case _ => (Nil, Nil)
    }
    val known = columns.zipWithIndex.flatMap { case (c, n) => extent(c.dataType, rows, n).map(c.name -> _) }
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
