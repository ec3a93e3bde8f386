package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.analysis.{NamedParameter, Parameter, PosParameter}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.plans.logical.{AlterTableAddConstraint, LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{PARAMETER, TreePattern}
import org.apache.spark.sql.delta.commands.{DeltaReorgTable, OptimizeTableCommand}

/** Spark puts the values of `:name` and `?` into the plan, when it analyses that. */
private[streamtable] trait ParsesParameters extends ParserOfOurs {

  /** A statement of ours to which no values were given yet. */
  protected def unbound(sql: String): LogicalPlan = waiting(sql)(statement).getOrElse(statement(sql))

  /** A statement of Spark or Delta. Delta's grammar knows no parameters, so that its statements wait for values as text. */
  protected def theirs(sql: String)(parse: String => LogicalPlan): LogicalPlan = {
    val text = substituted(sql)
    def withValues(filled: String) = withoutVariables(parsePlan(filled))
    try
      parse(sql) match {
        case keepsText @ (_: OptimizeTableCommand | _: DeltaReorgTable | _: AlterTableAddConstraint) =>
          waiting(text)(withValues).getOrElse(keepsText)
        case plan => plan
      }
    catch {
      case e: ParseException if !Slips.in(sql) =>
        waiting(text)(filled => if (filled == text) throw e else withValues(filled)).getOrElse(throw e)
    }
  }

  private def waiting(sql: String)(read: String => LogicalPlan): Option[LogicalPlan] =
    Option(Markers.in(sql)).filter(_.nonEmpty).map { markers =>
      val values = markers.map(m => if (m.name.isEmpty) PosParameter(m.from) else NamedParameter(m.name))
      UnboundStatement(sql, markers, values, read)
    }
}

/** A statement as text that waits for values: Spark's rule replaces the parameters that this plan shows. */
private[streamtable] case class UnboundStatement(
    sql: String,
    markers: Seq[Marker],
    values: Seq[Expression],
    read: String => LogicalPlan)
    extends LeafNode {
  override def output: Seq[Attribute] = Nil
  override lazy val resolved: Boolean = false
  override protected val nodePatterns: Seq[TreePattern] = Seq(PARAMETER)

  private def isGiven(value: Expression) = value.resolved && !value.exists(_.isInstanceOf[Parameter])

  def isBound: Boolean = values.forall(isGiven)

  /** The plan of the text with the values that are there. A marker without a value stays in the text. */
  def bound: LogicalPlan =
    read(
      Markers
        .filled(sql, markers.zip(values).collect { case (marker, value) if isGiven(value) => marker -> value.sql }))
}

/** Has a statement read once its values are there. */
private[streamtable] object BoundStatements extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case statement: UnboundStatement if statement.isBound => statement.bound
  }
}

/** Has a statement read to which not all values came: who reads it says what is wrong with it. */
private[streamtable] object UnboundStatements extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case statement: UnboundStatement => statement.bound
    case other => other
  }
}
