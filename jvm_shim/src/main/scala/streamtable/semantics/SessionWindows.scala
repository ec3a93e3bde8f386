package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.{LeftAnti, LeftSemi}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.types._

/**
 * Sessions, written out. A column of `session_window()` bears a mark in its metadata, by which Spark's physical planning merges, in any
 * GROUP BY that has it as a key, what overlaps or touches among rows with equal other keys. The plan that is handed over says so in window
 * functions over the other keys, and its columns bear no mark: a grouping of ours would merge by it as well.
 */
private object SessionWindows extends PredicateHelper {

  def isMarked(e: Expression): Boolean = e match {
    case named: NamedExpression => named.resolved && named.metadata.contains(SessionWindow.marker)
    case _ => false
  }

  /** The plan with columns of no mark, for what is grouped by us. */
  def unmarked(plan: LogicalPlan): LogicalPlan =
    if (!plan.output.exists(isMarked)) plan
    else Project(plan.output.map(a => if (isMarked(a)) Alias(KnownNullable(a), a.name)() else a), plan)

  /** The plan with sessions as window functions, or why Spark's answer would not be theirs. */
  def written(plan: LogicalPlan): Either[String, LogicalPlan] =
    if (!plan.exists(_.expressions.exists(_.exists(isMarked)))) scala.Right(plan)
    else {
      val grouped = plan.transformUp {
        case d: Distinct if d.output.exists(isMarked) => Aggregate(d.child.output, d.child.output, d.child)
      }
      grouped
        .collectFirst(Function.unlift(obstacle))
        .toLeft(grouped.transformUp {
          case a: Aggregate if a.groupingExpressions.exists(isMarked) => overWindows(a)
        })
    }

  private def obstacle(node: LogicalPlan): Option[String] = node match {
    case a: Aggregate if a.groupingExpressions.exists(isMarked) =>
      val (sessions, others) = a.groupingExpressions.partition(isMarked)
      val calls = a.aggregateExpressions.flatMap(_.collect { case c: AggregateExpression => c })
      val distinct = calls.filter(_.isDistinct)
      if (sessions.size > 1 || !sessions.head.isInstanceOf[Attribute])
        Some("Spark merges the sessions of one column only")
      else if (distinct
          .exists(_.filter.isDefined) || distinct.map(_.aggregateFunction.children.toSet).distinct.size > 1)
        Some(
          "Spark merges the sessions of each DISTINCT argument by itself where there are several, or one with FILTER")
      else if (calls.exists(_.references.contains(sessions.head.asInstanceOf[Attribute])))
        Some("Spark gives an aggregate of a session the sessions before they are merged")
      else
        others
          .find(key => !Telling.isExact(key.dataType))
          .map(key => s"Spark compares the key ${key.sql} byte by byte when it merges sessions")
    case Filter(condition, join: Join) => moved(condition, join)
    case Filter(condition, child) if readsSessions(condition, child) => Some(below(condition))
    case join: Join => join.condition.flatMap(moved(_, join))
    case Intersect(_, _, _) | Except(_, _, _)
        if node.output.exists(isMarked) || node.children.exists(_.output.exists(isMarked)) =>
      Some("Spark merges sessions in INTERSECT and EXCEPT")
    case _ => None
  }

  /** What Spark may move below one side of a join, by itself or by what it infers of an equality. */
  private def moved(condition: Expression, join: Join): Option[String] = splitConjunctivePredicates(condition)
    .find(c =>
      readsSessions(c, join) && (c.isInstanceOf[EqualTo] || join.joinType == LeftSemi || join.joinType == LeftAnti ||
        join.children.exists(side => c.references.subsetOf(side.outputSet))))
    .map(below)

  private def below(condition: Expression): String =
    s"Spark may move ${condition.sql} below the sessions, which it then merges without the other rows"

  private def readsSessions(condition: Expression, child: LogicalPlan): Boolean =
    condition.references.intersect(ofSessions(child)).nonEmpty

  /** The columns of `plan` that are made of merged sessions. */
  private def ofSessions(plan: LogicalPlan): AttributeSet = {
    val below = AttributeSet(plan.children.flatMap(ofSessions)) ++ (plan match {
      case a: Aggregate => AttributeSet(a.groupingExpressions.filter(isMarked).flatMap(_.references))
      case _ => AttributeSet.empty
    })
    if (below.isEmpty) below
    else
      plan match {
        case u: Union =>
          AttributeSet(u.output.zipWithIndex.collect {
            case (a, n) if u.children.exists(c => below.contains(c.output(n))) => a
          })
        case _ =>
          below ++ AttributeSet(plan.expressions.flatMap(_.collect {
            case a: Alias if a.references.intersect(below).nonEmpty => a.toAttribute
          }))
      }
  }

  /**
   * A session begins with a row behind whose start no earlier row of the key reaches. Its rows are those with the same last such start. It
   * ends with the furthest end of them. The frames go by the value of the start: rows that start together are on one side.
   */
  private def overWindows(a: Aggregate): LogicalPlan = {
    val session = a.groupingExpressions.find(isMarked).get.asInstanceOf[Attribute]
    val computed =
      a.groupingExpressions.collect { case e if !e.isInstanceOf[Attribute] && !e.foldable => Alias(e, "key")() }
    val others =
      a.groupingExpressions.collect { case key: Attribute if !isMarked(key) => key } ++ computed.map(_.toAttribute)
    val bound = session.dataType.asInstanceOf[StructType].head.dataType
    def micros(e: Expression): Expression = PreciseTimestampConversion(e, bound, LongType)
    val start = Alias(micros(GetStructField(session, 0)), "starts")()
    val end = Alias(micros(GetStructField(session, 1)), "ends")()
    val order = Seq(SortOrder(start.toAttribute, Ascending))
    def greatest(of: Expression, keys: Seq[Expression], by: Seq[SortOrder], upTo: Expression, name: String): Alias = {
      val frame = SpecifiedWindowFrame(if (by.isEmpty) RowFrame else RangeFrame, UnboundedPreceding, upTo)
      Alias(WindowExpression(Max(of).toAggregateExpression(), WindowSpecDefinition(keys, by, frame)), name)()
    }
    val rows = Project(a.child.output ++ computed ++ Seq(start, end), a.child)
    val reached = greatest(end.toAttribute, others, order, UnaryMinus(Literal(1L)), "reached")
    val begins = CaseWhen(
      Seq((Coalesce(Seq(LessThan(reached.toAttribute, start.toAttribute), Literal(true))), start.toAttribute)),
      None)
    val began = greatest(begins, others, order, CurrentRow, "began")
    val windows = Window(Seq(began), others, order, Window(Seq(reached), others, order, rows))
    def instant(e: Expression): Expression = PreciseTimestampConversion(e, LongType, bound)
    val bounds = Seq(instant(began.toAttribute), instant(Max(end.toAttribute).toAggregateExpression()))
    val merged = CreateNamedStruct(Seq(Literal("start"), bounds.head, Literal("end"), bounds(1)))
    def isSession(e: Expression): Boolean = e match {
      case x: Attribute => x.exprId == session.exprId
      case _ => false
    }
    def named(e: Expression): Expression = e.transformDown {
      case x if computed.exists(_.child.semanticEquals(x)) => computed.find(_.child.semanticEquals(x)).get.toAttribute
      case GetStructField(x, n, _) if isSession(x) => bounds(n)
      case x if isSession(x) => merged
    }
    val list = a.aggregateExpressions.map {
      case x: Attribute if isSession(x) => Alias(merged, x.name)(x.exprId)
      case other => named(other).asInstanceOf[NamedExpression]
    }
    Aggregate(a.groupingExpressions.filterNot(isSession).map(named) :+ began.toAttribute, list, windows)
  }
}
