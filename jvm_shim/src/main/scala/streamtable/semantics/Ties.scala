package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.optimizer.InlineCTE
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern
import org.apache.spark.sql.types._

/**
 * Orders that leave the answer open, completed by the other columns of the input. Rows that are then still equal are equal in all
 * that tells values apart (`Identity`), so it does not matter which comes first. Spark would take any; a table that is maintained
 * has to take the same ones each time.
 *
 * A RANGE frame ends with the peers of a row, so its order stays as it is, as that of rank and the like. Where a function asks for
 * the order of rows and its RANGE frame is one of rows as well (the whole partition; first_value from its start), it becomes that.
 * What stays open then is for the reader to refuse.
 *
 * Sums of floating numbers depend on the order of their rows by rounding. Over a whole partition the order is completed as well.
 * The peers of a RANGE frame are summed in any order, and the reader is told so (`rounds`).
 *
 * The functions max_by and min_by, of one value or of several, ask for an order too. It is completed by the value, if values can
 * be compared.
 *
 * The functions max and min over a window give one of several values that are equal and not the same, such as the two zeros. They
 * become those of the value and of what tells it apart.
 */
private object Ties {

  def broken(plan: LogicalPlan): LogicalPlan = inlined(plan).transformUpWithSubqueries {
    case limit @ (_: GlobalLimit | _: Offset) => ordered(completed(limit))
    case window: Window => decided(window)
    case aggregate: Aggregate =>
      aggregate.transformExpressions {
        case m @ MaxBy(value, order) if !decides(order, value) => m.copy(orderingExpr = beside(order, value))
        case m @ MinBy(value, order) if !decides(order, value) => m.copy(orderingExpr = beside(order, value))
        case severalBy(value, order, by) if !decides(order, value) => by(beside(order, value))
      }
  }

  private def inOrder(window: Window): LogicalPlan = {
    val (open, closed) = window.windowExpressions.partition(_.exists {
      case w: WindowExpression => countsRows(w); case _ => false
    })
    if (open.isEmpty) window
    else {
      val order = complete(window.orderSpec, window.child.output)
      val below = if (closed.isEmpty) window.child else window.copy(windowExpressions = closed)
      val ordered = open.map(_.transform { case w @ WindowExpression(_, spec) =>
        w.copy(windowSpec = spec.copy(orderSpec = order, frameSpecification = rows(spec.frameSpecification)))
      }.asInstanceOf[NamedExpression])
      window.copy(windowExpressions = ordered, orderSpec = order, child = below)
    }
  }

  private def decided(window: Window): LogicalPlan =
    if (!window.windowExpressions.exists(takesOneOfEqual.unapply(_).isDefined)) inOrder(window)
    else {
      val (below, above) = window.windowExpressions.map {
        case named @ takesOneOfEqual(w, value, function) =>
          val extreme =
            Alias(w.transform { case a: AggregateExpression => a.copy(function(told(value))) }, named.name)()
          val first = GetStructField(extreme.toAttribute, 0)
          (extreme, Alias(first, named.name)(named.exprId, explicitMetadata = Some(named.metadata)))
        case other => (other, other.toAttribute)
      }.unzip
      Project(window.child.output ++ above, inOrder(window.copy(windowExpressions = below)))
    }

  /** max(x) and min(x) over a window, where equal values may not be the same: the expression, x, and the same function of another x. */
  private object takesOneOfEqual {
    def unapply(e: Expression): Option[(WindowExpression, Expression, Expression => AggregateFunction)] = e match {
      case Alias(w @ WindowExpression(AggregateExpression(Max(value), _, _, _, _), _), _) => of(w, value, Max(_))
      case Alias(w @ WindowExpression(AggregateExpression(Min(value), _, _, _, _), _), _) => of(w, value, Min(_))
      case _ => None
    }

    private def of(w: WindowExpression, value: Expression, function: Expression => AggregateFunction) =
      Option.when(!Identity.isIdentity(value.dataType) && telling(value).nonEmpty)((w, value, function))
  }

  /** The value, and what tells it from equal ones. */
  private def told(value: Expression): Expression = unlessNull(value, fields(value))

  private def fields(value: Expression): Seq[Expression] = telling(value).zipWithIndex.flatMap { case (e, n) =>
    Seq(Literal(if (n == 0) "_value" else s"_value$n"), e)
  }

  /** A struct of names and values, or NULL where the expression is. */
  private def unlessNull(e: Expression, fields: Seq[Expression]): Expression = {
    val struct = CreateNamedStruct(fields)
    if (e.nullable) If(IsNull(e), Literal(null, struct.dataType), struct) else struct
  }

  /** max_by(x, y, k) and min_by(x, y, k): x, y, and the same with another y. */
  private object severalBy {
    def unapply(e: Expression): Option[(Expression, Expression, Expression => Expression)] = Versions.severalBy(e)
  }

  /** Whether rows with an equal order have the same value, or nothing tells two values apart. */
  private def decides(order: Expression, value: Expression): Boolean = telling(value).isEmpty ||
    Identity.isIdentity(value.dataType) && (order.semanticEquals(value) || (order match {
      case CreateNamedStruct(children) => children.exists(_.semanticEquals(value))
      case _ => false
    }))

  /** The order of max_by, then the value: of rows with an equal order the one with the greatest value counts. NULL is no order. */
  private def beside(order: Expression, value: Expression): Expression =
    unlessNull(order, Seq(Literal("_order"), order) ++ fields(value))

  /** Whether the value depends on which of equal rows comes first, and no order says so. */
  def isLeftOpen(w: WindowExpression, columns: Seq[Attribute]): Boolean =
    if (countsRows(w)) w.windowSpec.orderSpec.isEmpty || leftOut(columns).nonEmpty
    else asksForOrder(w.windowFunction) && !isDecided(w)

  /** Whether the value depends by rounding on the order in which Spark adds up rows that are equal in the order of the window. */
  def rounds(w: WindowExpression): Boolean = asRounded(w.windowFunction) && !countsRows(w) && !isDecided(w)

  /** The columns by which no order can tell rows apart. */
  def leftOut(columns: Seq[Attribute]): Seq[Attribute] = columns.filter(telling(_).isEmpty)

  private def completed(plan: LogicalPlan): LogicalPlan = plan match {
    case s: Sort if s.global => s.copy(order = complete(s.order, s.child.output))
    case _: GlobalLimit | _: LocalLimit | _: Offset => plan.mapChildren(completed)
    case _ if keepsOrder(plan) => plan.mapChildren(completed)
    case other => other
  }

  /** An order may stand within WITH. What is drawn anew at each place stays where it is. */
  private def inlined(plan: LogicalPlan): LogicalPlan =
    if (plan.containsPattern(TreePattern.CTE)) InlineCTE()(plan) else plan

  /** Whether rows leave a node in the order in which they come to it. */
  def keepsOrder(plan: LogicalPlan): Boolean = plan match {
    case _: Project | _: SubqueryAlias | _: View | _: PipeOperator | _: ResolvedHint => true
    case _ => false
  }

  /**
   * A limit directly over its order. If the order is by columns that are not selected, Spark's analyser puts a projection between
   * them. In a correlated subquery Spark then takes any rows, because it looks for the order directly below the limit.
   */
  private def ordered(plan: LogicalPlan): LogicalPlan = plan match {
    case GlobalLimit(n, LocalLimit(m, Project(list, child))) if hasOrder(child) =>
      Project(list, GlobalLimit(n, LocalLimit(m, child)))
    case Offset(n, Project(list, child)) if hasOrder(child) => Project(list, Offset(n, child))
    case other => other
  }

  private def hasOrder(plan: LogicalPlan): Boolean = plan match {
    case s: Sort => s.global
    case Offset(_, child) => hasOrder(child)
    case _ => false
  }

  private def complete(order: Seq[SortOrder], columns: Seq[Attribute]): Seq[SortOrder] = {
    val named = order.map(_.child.canonicalized).toSet
    order ++ columns.distinct.flatMap(telling).filterNot(e => named(e.canonicalized)).map(SortOrder(_, Ascending))
  }

  /** The expressions whose order tells all values apart: the value itself, then what equality does not see, such as the two zeros. */
  private def telling(e: Expression): Seq[Expression] =
    if (e.dataType.existsRecursively(Versions.isSpatial)) Nil
    else sortable(e) ++ Option.when(!Identity.isIdentity(e.dataType))(Identity.build(Seq(e)))

  private def sortable(e: Expression): Seq[Expression] = e.dataType match {
    case t if RowOrdering.isOrderable(t) => Seq(e)
    case MapType(key, value, _) if RowOrdering.isOrderable(key) && RowOrdering.isOrderable(value) =>
      Seq(MapEntries(MapSort(e)))
    case _ => Nil
  }

  /** Whether rows are counted one by one, so that more columns in the order change nothing but ties. */
  private def countsRows(w: WindowExpression): Boolean = (w.windowFunction, w.windowSpec.frameSpecification) match {
    case (_: RankLike | _: CumeDist, _) => false
    case (_: RowNumberLike | _: FrameLessOffsetWindowFunction, _) => true
    case (f, SpecifiedWindowFrame(_, UnboundedPreceding, UnboundedFollowing)) =>
      (asksForOrder(f) || asRounded(f)) && !isDecided(w)
    case (_, SpecifiedWindowFrame(RowFrame, _, _)) => true
    case (
          AggregateExpression(First(_, false), _, _, _, _),
          SpecifiedWindowFrame(RangeFrame, UnboundedPreceding, CurrentRow)) =>
      !isDecided(w)
    case _ => false
  }

  private def rows(frame: WindowFrame): WindowFrame = frame match {
    case s: SpecifiedWindowFrame => s.copy(frameType = RowFrame)
    case other => other
  }

  private def asksForOrder(function: Expression): Boolean = function match {
    case AggregateExpression(f, _, _, _, _) =>
      f match {
        case _: First | _: Last | _: AnyValue | _: Collect[_] | _: MaxMinBy | _: Mode | _: ListAgg |
            _: ApproximatePercentile =>
          true
        case other => Versions.severalBy(other).isDefined
      }
    case _: NthValue => true
    case _ => false
  }

  /** Whether the function computes with floating numbers. An average of INT and smaller is a sum of whole numbers, which is exact. */
  private def asRounded(function: Expression): Boolean = function match {
    case AggregateExpression(f, _, _, _, _) =>
      f match {
        case _: Max | _: Min | _: First | _: Last | _: AnyValue | _: MaxMinBy | _: Collect[_] | _: Mode => false
        case a: Average if a.child.dataType.isInstanceOf[IntegralType] => a.child.dataType == LongType
        case other => other.dataType.existsRecursively(t => t == DoubleType || t == FloatType)
      }
    case _ => false
  }

  /** Whether rows that are equal in the order have equal arguments, so that it does not matter which comes first. */
  private def isDecided(w: WindowExpression): Boolean = {
    val spec = w.windowSpec
    val same = AttributeSet((spec.partitionSpec ++ spec.orderSpec.map(_.child)).collect {
      case a: Attribute if equalIsSame(a.dataType) => a
    })
    w.windowFunction.references.subsetOf(same)
  }

  private def equalIsSame(t: DataType): Boolean = t match {
    case _: IntegralType | _: DecimalType | BooleanType | DateType | TimestampType | TimestampNTZType | BinaryType =>
      true
    case s: StringType => s == StringType
    case _ => false
  }
}
