package org.apache.spark.sql.streamtable

import scala.jdk.CollectionConverters._
import scala.util.{Success, Try}

import org.apache.spark.sql.{Row, SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, ExpressionInfo, NamedArgumentExpression}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LocalRelation, LogicalPlan, Statistics}
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan, SparkStrategy}

/**
 * A table function that Python answers, as a leaf of any query. It is asked for its columns when the query is analysed and for its rows
 * when the query is first planned: adaptive execution plans again. And it is no constant to those who read plans.
 */
case class TableFunction(name: String, arguments: Seq[String], output: Seq[Attribute])
    extends LeafNode
    with MultiInstanceRelation {
  @transient lazy val rows: Seq[Row] =
    Handlers.callFunction(SparkSession.active, name, arguments).fold(Answers.rows(_, output), _.asScala.toSeq)
  override def nodeName: String = arguments.mkString(s"$name(", ", ", ")")
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics = Statistics(sizeInBytes = TableFunctions.small)
}

object TableFunctions {

  /** Those of `FUNCTIONS` in Python's monitor, and `VIOLATIONS`: Spark wants the names before Python can be asked. */
  val names: Seq[String] =
    Seq(
      "stream_tables",
      "refresh_history",
      "refresh_stats",
      "staleness",
      "source_health",
      "stream_table_dependencies",
      "expectations",
      "alerts",
      "publications",
      "subscriptions",
      "subscription_tables",
      "subscription_stats",
      "replication_slots",
      "expectation_violations")

  /** What Spark takes the answer's size for: enough to broadcast it. */
  val small: BigInt = 1 << 16

  def inject(extensions: SparkSessionExtensions): Unit = {
    names.foreach { name =>
      extensions.injectTableFunction(
        (FunctionIdentifier(name), new ExpressionInfo(getClass.getName, name), build(name, _)))
    }
    extensions.injectPlannerStrategy(_ => Planned)
  }

  private def build(name: String, arguments: Seq[Expression]): LogicalPlan = {
    val values = arguments.map {
      case e if e.foldable && !e.isInstanceOf[NamedArgumentExpression] => Option(e.eval()).map(_.toString).orNull
      case other =>
        throw StreamTableException(
          "STREAMTABLE_INVALID_STATEMENT",
          "42000",
          s"$name cannot take ${other.sql}",
          "give constants, without names, and filter or join the rows.")
    }
    Guard.ofClients.foreach(guard => mentioned(guard, SparkSession.active, values))
    TableFunction(name, values, Answers.columns(Handlers.describeFunction(SparkSession.active, name, values)))
  }

  /** Names in the arguments are judged as those of relations are. What Spark cannot read as a name, Python might: it is a place then. */
  private def mentioned(guard: Guard, session: SparkSession, values: Seq[String]): Unit =
    values.filter(_ != null).foreach { text =>
      Try(session.sessionState.sqlParser.parseMultipartIdentifier(text)) match {
        case Success(parts) => new GuardedPlan(guard, session).identifier(parts)
        case _ if text.matches("[\\w.\\s-]*") => () // no path
        case _ => guard.place(text)
      }
    }

  private object Planned extends SparkStrategy {
    override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
      case f: TableFunction =>
        Seq(LocalTableScanExec(f.output, LocalRelation.fromExternalRows(f.output, f.rows).data, None))
      case _ => Nil
    }
  }
}
