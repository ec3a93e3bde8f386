package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * Orders that leave the answer open, completed by the other columns of the input: rows that are then still equal are equal in all
 * that can be compared, so it does not matter which comes first. Spark would take any; a table that is maintained has to take the
 * same ones each time. Peers of RANGE frames, rank and the like are no ties: they stay as they are.
 */
private object Ties {

  def broken(plan: LogicalPlan): LogicalPlan = plan.transformUpWithSubqueries {
    case limit @ (_: GlobalLimit | _: Offset) => completed(limit)
    case window: Window =>
      val (open, settled) = window.windowExpressions.partition(_.exists { case w: WindowExpression => isOpen(w); case _ => false })
      if (open.isEmpty || window.orderSpec.isEmpty) window
      else {
        val order = complete(window.orderSpec, window.child.output)
        val below = if (settled.isEmpty) window.child else window.copy(windowExpressions = settled)
        val ordered = open.map(_.transform {
          case w @ WindowExpression(_, spec) => w.copy(windowSpec = spec.copy(orderSpec = order))
        }.asInstanceOf[NamedExpression])
        window.copy(windowExpressions = ordered, orderSpec = order, child = below)
      }
  }

  private def completed(plan: LogicalPlan): LogicalPlan = plan match {
    case s: Sort if s.global => s.copy(order = complete(s.order, s.child.output))
    case _: GlobalLimit | _: LocalLimit | _: Offset | _: Project | _: SubqueryAlias => plan.mapChildren(completed)
    case other => other
  }

  private def complete(order: Seq[SortOrder], columns: Seq[Attribute]): Seq[SortOrder] = {
    val named = order.map(_.child.canonicalized).toSet
    order ++ columns.filter(c => RowOrdering.isOrderable(c.dataType) && !named(c.canonicalized)).distinct.map(SortOrder(_, Ascending))
  }

  private def isOpen(w: WindowExpression): Boolean = (w.windowFunction, w.windowSpec.frameSpecification) match {
    case (_: RowNumber | _: NTile | _: OffsetWindowFunction, _) => true
    case (_: RankLike | _: CumeDist, _) => false
    case (_, SpecifiedWindowFrame(RowFrame, UnboundedPreceding, UnboundedFollowing)) => false
    case (_: AggregateExpression, SpecifiedWindowFrame(RowFrame, _, _)) => true
    case _ => false
  }
}
