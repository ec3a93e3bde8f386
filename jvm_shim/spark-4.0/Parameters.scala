package org.apache.spark.sql.streamtable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.{NamedParameter, Parameter, PosParameter}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{PARAMETER, TreePattern}

/** Spark puts the values of `:name` and `?` into the plan, when it analyses that. */
private[streamtable] trait ParsesParameters extends ParserOfOurs {

  /** A statement of ours to which no values were given yet: Spark's rule replaces the parameters that this plan shows. */
  protected def unbound(sql: String): LogicalPlan = {
    val markers = Markers.in(sql)
    if (markers.isEmpty) statement(sql)
    else {
      val values = markers.map(m => if (m.name.isEmpty) PosParameter(m.from) else NamedParameter(m.name))
      UnboundStatement(sql, markers, values)
    }
  }
}

/** A statement of ours whose text waits for values. */
private[streamtable] case class UnboundStatement(sql: String, markers: Seq[Marker], values: Seq[Expression])
    extends LeafNode {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false
  override protected val nodePatterns: Seq[TreePattern] = Seq(PARAMETER)
}

/** Has a statement of ours read once its values are there. */
private[streamtable] case class BoundStatements(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case UnboundStatement(sql, markers, values)
        if values.forall(v => v.resolved && !v.exists(_.isInstanceOf[Parameter])) =>
      val text = Markers.filled(sql, markers.zip(values.map(_.sql)))
      Guard.ofClients.foreach(new GuardedPlan(_, session).statement(text))
      StreamTableCommand.parse(session, text)
  }
}
