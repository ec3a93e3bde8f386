package org.apache.spark.sql.streamtable

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.analysis.{EliminateSubqueryAliases, EliminateView, UpdateAttributeNullability}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, AggregateFunction, Count, First, Max}
import org.apache.spark.sql.catalyst.optimizer._
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION

/**
 * The analysed plan with joins in place of subquery expressions, by the rules with which Spark's own optimiser does it.
 *
 * Spark keeps two kinds as expressions: subqueries without outer references, which it runs beforehand, and the check that a scalar
 * subquery gives one row, which its LEFT SINGLE join does. Both are written as joins with aggregates here. A subquery that no rule
 * takes away stays where it is, and whoever reads the plan sees it.
 */
private object SubqueriesAsJoins extends PredicateHelper {
  private val ofOneRow = TreeNodeTag[Unit]("streamtable.ofOneRow")

  /** Whether a call gives the value of a subquery's only row. */
  def isOfOneRow(call: AggregateExpression): Boolean = call.getTagValue(ofOneRow).isDefined

  def apply(analyzed: LogicalPlan): LogicalPlan = {
    val plain = ReplaceExpressions(EliminateView(EliminateSubqueryAliases(InlineCTE(alwaysInline = true)(analyzed))))
    // What stands above a join that pads may still say that a column is never NULL, as it was below.
    if (!plain.containsPattern(PLAN_EXPRESSION) || losesRows(plain)) plain
    else
      try UpdateAttributeNullability(joined(plain))
      // A rule of Spark has said that it does not take this subquery. All else is a defect, and not passed over.
      catch { case _: SparkThrowable => plain }
  }

  private def joined(plan: LogicalPlan): LogicalPlan = {
    // First of all, as in Spark: of NOT (a NOT IN ...) the rules below would make one that takes NULL for false, and so for true.
    val bare = BooleanSimplification(plan.transformAllExpressions { case e: Exists =>
      e.withNewPlan(unlimited(e.plan))
    })
    // A subquery that is a key is joined below its aggregate; without one, Spark's rules leave keys as they are.
    val projected = if (bare.exists(subqueryInKeys)) PullOutGroupingExpressions(bare) else bare
    // Of a subquery the aggregate, too: Spark looks there for what a COUNT is where no row is.
    val split = projected.transformUpWithSubqueries(splitAggregate)
    val overOneRow = OptimizeOneRowRelationSubquery(split).transformUpWithSubqueries { case node => unnamed(node) }
    val pulled = PullupCorrelatedPredicates(PullOutNestedDataOuterRefExpressions(overOneRow))
    val inner = pulled.transformAllExpressions { case s: SubqueryExpression => s.withNewPlan(joined(s.plan)) }
    val rules = Seq(
      uncorrelated _,
      RewriteCorrelatedScalarSubquery.apply _,
      RewriteLateralSubquery.apply _,
      RewritePredicateSubquery.apply _,
      single _)
    rules.foldLeft(inner)((p, rule) => rule(p))
  }

  /** LEFT JOIN LATERAL of a generator, without a condition: Spark makes an inner generator of it, which is none of our rules. */
  private def losesRows(plan: LogicalPlan): Boolean = plan
    .collectWithSubqueries { case LateralJoin(_, right: LateralSubquery, LeftOuter, None) =>
      OptimizeOneRowRelationSubquery.OneRowSubquery.unapply(right.plan)
    }
    .flatten
    .exists(_.exists(_.isInstanceOf[Generate]))

  /** Names within expressions, as of a subquery that became one, are numbered anew each time. */
  private def unnamed(node: LogicalPlan): LogicalPlan = node match {
    case _: Filter | _: Join | _: Sort | _: Generate => node.mapExpressions(trimAliases)
    case _ => node.mapExpressions(trimNonTopLevelAliases)
  }

  private def subqueryInKeys(plan: LogicalPlan): Boolean = plan match {
    case a: Aggregate => a.groupingExpressions.exists(_.containsPattern(PLAN_EXPRESSION))
    case _ => false
  }

  /** EXISTS (... LIMIT 1) asks for no more than EXISTS (...) does. */
  private def unlimited(plan: LogicalPlan): LogicalPlan = plan match {
    case GlobalLimit(IntegerLiteral(n), LocalLimit(_, child)) if n > 0 && !child.isInstanceOf[Offset] => child
    case other => other
  }

  /** An aggregate with subqueries beside its calls becomes a projection over it, where they can be joined. */
  private val splitAggregate: PartialFunction[LogicalPlan, LogicalPlan] = {
    case a @ PhysicalAggregation(keys, calls, results, child) if results.exists(_.exists(isJoinedAbove)) =>
      // Spark names the result of a call with its attributes' numbers, which differ each time.
      val named = calls.map(c => c.resultId -> Alias(c, Meaning.text(c))(c.resultId)).toMap
      val list = results.map(_.transform { case x: AttributeReference =>
        named.get(x.exprId).fold(x)(n => x.withName(n.name))
      })
      val computed = keys.map { case Alias(key, _) => key; case key => key }
      Project(
        keepIds(list.map(_.asInstanceOf[NamedExpression]), a.output),
        Aggregate(computed, keys ++ named.values, child))
  }

  private def keepIds(list: Seq[NamedExpression], output: Seq[Attribute]): Seq[NamedExpression] = list.zip(output).map {
    case (e, out) if e.exprId == out.exprId => e
    case (Alias(e, _), out) => Alias(e, out.name)(out.exprId)
    case (e, out) => Alias(e, out.name)(out.exprId)
  }

  /** A subquery whose join stands above an aggregate: its value is compared with results of the aggregate, or with nothing. */
  private def isJoinedAbove(e: Expression): Boolean = e.isInstanceOf[InSubquery] || isUncorrelated(e)

  private def isUncorrelated(e: Expression): Boolean = e match {
    case s: ScalarSubquery => s.children.isEmpty
    case s: Exists => s.children.isEmpty
    case _ => false
  }

  /** The value of an uncorrelated subquery is the only column of a relation of one row. */
  private def uncorrelated(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case node: UnaryNode if node.expressions.exists(_.exists(isUncorrelated)) =>
      val (rewritten, values) = replaced(node)
      restored(node, rewritten.withNewChildren(Seq(values.foldLeft(node.child)(product))))
    case join: Join if join.condition.exists(_.exists(isUncorrelated)) =>
      val (rewritten, values) = replaced(join)
      restored(join, rewritten.withNewChildren(Seq(values.foldLeft(join.left)(product), join.right)))
  }

  private def replaced(node: LogicalPlan): (LogicalPlan, Seq[LogicalPlan]) = {
    val values = ArrayBuffer.empty[LogicalPlan]
    val rewritten = node.mapExpressions(_.transform {
      case e if isUncorrelated(e) => values += oneRow(e); values.last.output.head
    })
    (rewritten, values.toSeq)
  }

  private def product(left: LogicalPlan, right: LogicalPlan): LogicalPlan =
    Join(left, right, Inner, None, JoinHint.NONE)

  private def restored(before: LogicalPlan, after: LogicalPlan): LogicalPlan =
    if (before.output.map(_.exprId) == after.output.map(_.exprId)) after else Project(before.output, after)

  private def oneRow(subquery: Expression): LogicalPlan = subquery match {
    case Exists(plan, _, _, _, _) =>
      val rows = counted()
      Project(Seq(Alias(GreaterThan(rows.toAttribute, Literal(0L)), "exists")()), Aggregate(Nil, Seq(rows), plan))
    case s: ScalarSubquery if isGlobalAggregate(s.plan) =>
      val value = s.plan.output.head
      Project(Seq(Alias(value, value.name)()), s.plan)
    case s: ScalarSubquery =>
      val (rows, value) = (counted(), only(s.plan.output.head))
      Project(Seq(Alias(checked(rows, value), "value")()), Aggregate(Nil, Seq(rows, value), s.plan))
    case other => throw new IllegalArgumentException(other.sql)
  }

  private def isGlobalAggregate(plan: LogicalPlan): Boolean = plan match {
    case Aggregate(Nil, _, _, _) => true
    case Project(_, child) => isGlobalAggregate(child)
    case _ => false
  }

  private def counted(): Alias = Alias(Count(Literal(1)).toAggregateExpression(), "rows")()

  /** The value of the only row of a group: its maximum is cheap to maintain; where there is none, any. */
  private def only(value: Attribute): Alias = {
    val function: AggregateFunction = if (RowOrdering.isOrderable(value.dataType)) Max(value) else new First(value)
    val call = function.toAggregateExpression()
    call.setTagValue(ofOneRow, ())
    Alias(call, value.name)()
  }

  private def checked(rows: Alias, value: Alias): Expression = {
    val error = RaiseError(
      Literal("SCALAR_SUBQUERY_TOO_MANY_ROWS"),
      CreateMap(Nil, useStringTypeWhenEmpty = true),
      value.dataType)
    If(GreaterThan(rows.toAttribute, Literal(1L)), error, value.toAttribute)
  }

  /**
   * A LEFT SINGLE join over equalities: the right side grouped by what it is compared with; a partner of more rows than one is an error. A
   * key of the groups is no value of the row: 0.0 may stand for -0.0.
   */
  private def single(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case join @ Join(left, right, LeftSingle, Some(condition), _)
        if splitConjunctivePredicates(condition).forall(keyed(right, _)) =>
      val keys = ArrayBuffer.empty[Alias]
      val over = splitConjunctivePredicates(condition).map {
        case e @ Equality(a, b) if e.references.exists(right.outputSet.contains) =>
          val key = if (reads(a, right)) a else b
          keys += Alias(key, Meaning.text(key))()
          e.withNewChildren(Seq(a, b).map(side => if (side eq key) keys.last.toAttribute else side))
        case other => other
      }
      val (rows, partners) = (counted(), right.output.map(only))
      val grouped = Aggregate(keys.map(_.child).toSeq, keys.toSeq ++ (rows +: partners), right)
      val values =
        right.output.zip(partners).map { case (a, partner) => Alias(checked(rows, partner), a.name)(a.exprId) }
      val outer = join.copy(right = grouped, joinType = LeftOuter, condition = Some(over.reduceLeft(And(_, _))))
      Project(join.output.map(a => values.find(_.exprId == a.exprId).getOrElse(a)), outer)
  }

  /** Whether a condition compares what is made of the right side alone, or does not read it. */
  private def keyed(right: LogicalPlan, e: Expression): Boolean = e match {
    case Equality(a, b) if a.deterministic && b.deterministic =>
      reads(a, right) && !meets(b, right) || reads(b, right) && !meets(a, right) || !meets(e, right)
    case other => !meets(other, right)
  }

  private def meets(e: Expression, right: LogicalPlan): Boolean = e.references.exists(right.outputSet.contains)

  /** Whether it is made of the right side alone. */
  private def reads(e: Expression, right: LogicalPlan): Boolean =
    meets(e, right) && e.references.subsetOf(right.outputSet)
}
