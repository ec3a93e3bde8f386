package org.apache.spark.sql.streamtable

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/**
 * The expressions and leaf plans of every query that was read, by reading and number.
 *
 * `st_expr('reading', n, c1, c2, ...)` is the n-th expression itself, its attributes replaced by the arguments. An expression thus
 * goes back into a query as the object that Spark's analyser made, never as text that has to be parsed again.
 */
object ExpressionRegistry {
  val identifier: FunctionIdentifier = FunctionIdentifier("st_expr")
  val info: ExpressionInfo = new ExpressionInfo(getClass.getName, "st_expr")

  private case class Entry(expression: Expression, inputs: Seq[Attribute])
  private val readings = new ConcurrentHashMap[String, Reading]()

  /** One query's expressions and leaves; filled while the plan is read. */
  final class Reading(val id: String) {
    private val entries = scala.collection.mutable.ArrayBuffer.empty[Entry]
    private val leaves = scala.collection.mutable.ArrayBuffer.empty[LogicalPlan]

    def add(expression: Expression, inputs: Seq[Attribute]): Int = {
      entries += Entry(expression, inputs); entries.size - 1
    }
    def addLeaf(plan: LogicalPlan): Int = { leaves += plan; leaves.size - 1 }
    def leaf(n: Int): LogicalPlan = leaves(n)

    def expression(n: Int, arguments: Seq[Expression]): Expression = {
      val Entry(expression, inputs) = entries(n)
      val argumentOf = inputs.map(_.exprId).zip(arguments).toMap
      expression.transformUp {
        case a: AttributeReference if argumentOf.contains(a.exprId) => argumentOf(a.exprId)
        // A plan may hold the same call twice, for its old and its new form: each needs an id of its own.
        case a: AggregateExpression => a.copy(resultId = NamedExpression.newExprId)
      }
    }
  }

  def keep(reading: Reading): Unit = readings.put(reading.id, reading)
  def release(id: String): Unit = readings.remove(id)
  def reading(id: String): Reading = readings.get(id)

  def build(arguments: Seq[Expression]): Expression = {
    val id = arguments.head.eval().toString
    Option(readings.get(id))
      .getOrElse(throw new IllegalStateException(s"no query was read under $id"))
      .expression(arguments(1).eval().asInstanceOf[Int], arguments.drop(2))
  }
}
