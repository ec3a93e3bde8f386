package org.apache.spark.sql.streamtable

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, AggregateFunction}
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.DateTimeUtils.{
  convertSpecialDate,
  convertSpecialTimestamp,
  convertSpecialTimestampNTZ
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * What a query reads of the clock, as one column: the instant `now`, which Python gives. `current_date`, `localtimestamp` and the like
 * are casts of it, in the zones in which they were analysed.
 *
 * Only filters and projections read the clock in the plan that is handed over. Where another operator does, a projection below it
 * computes what depends on the clock, so that a row changes by the clock only if that value does.
 */
private object Clock extends PredicateHelper {
  val now: AttributeReference = AttributeReference("__streamtable_now", TimestampType, nullable = false)()

  def isRead(e: Expression): Boolean = e.exists { case a: Attribute => a.exprId == now.exprId; case _ => false }

  /** Whether the expression gives the same value each time that it is evaluated for the same row at the same instant. */
  def isRepeatable(e: Expression): Boolean =
    e.deterministic && !e.exists(x => x.isInstanceOf[CurrentUser] || Versions.isCurrentTime(x) || drawsVector(x))

  /** Encryption that draws a vector of its own for each row, which Spark takes for deterministic. */
  private def drawsVector(e: Expression): Boolean = e match {
    case AesEncrypt(_, _, mode, _, iv, _) => drawsVector(mode, iv)
    case s: StaticInvoke if s.functionName == "aesEncrypt" => drawsVector(s.arguments(2), s.arguments(4))
    case _ => false
  }

  /** Whether a vector is drawn in this mode: ECB has none, and otherwise an empty one is drawn. */
  private def drawsVector(mode: Expression, iv: Expression): Boolean = {
    def text(e: Expression) = if (e.foldable) Option(e.eval()) else None
    val ecb = text(mode).exists(_.toString.equalsIgnoreCase("ECB"))
    val isGiven = text(iv).exists { case bytes: Array[Byte] => bytes.nonEmpty; case other => other.toString.nonEmpty }
    !ecb && !isGiven
  }

  /** How much of the clock decides the result: nothing, the date in the session's time zone, or the instant. A view may have another zone. */
  def granularity(plan: LogicalPlan): String = {
    val read = plan.collectWithSubqueries { case p => p.expressions.flatMap(_.collect(asRead(now))) }.flatten
    val zone = SQLConf.get.sessionLocalTimeZone
    val ofDate = read.filter(_.exists {
      case Cast(a: Attribute, DateType, of, _) => a.exprId == now.exprId && of.forall(_ == zone); case _ => false
    })
    if (read.isEmpty) "" else if (ofDate.size == read.size) "date" else "instant"
  }

  /** The plan as of one instant, in microseconds since 1970. */
  def stopped(plan: LogicalPlan, instant: Long): LogicalPlan =
    plan.transformAllExpressionsWithSubqueries(asRead(Literal(instant, TimestampType)))

  /** The plan with the clock as a column of its filters and projections. */
  def asColumn(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressions(asRead(now)).transformUp {
    case join: Join if join.condition.exists(isRead) => overJoin(join)
    case aggregate: Aggregate if aggregate.expressions.exists(isRead) => overAggregate(aggregate)
    case node: UnaryNode
        if !node.isInstanceOf[Filter] && !node.isInstanceOf[Project] && node.expressions.exists(isRead) =>
      val below = new Below
      val bound = node.mapExpressions(below.bound).withNewChildren(Seq(below.over(node.children.head)))
      Project(node.output, bound)
  }

  private def asRead(now: Expression): PartialFunction[Expression, Expression] = {
    case CurrentTimestamp() | Now() => now
    case date: CurrentDate => Cast(now, DateType, Some(date.zoneId.getId))
    case local: LocalTimestamp => Cast(now, TimestampNTZType, Some(local.zoneId.getId))
    // Spark's optimiser reads CAST('now' AS TIMESTAMP) and the like as calls of the clock.
    case Cast(text, to @ (DateType | TimestampType | TimestampNTZType), zone, _)
        if text.foldable && text.dataType == StringType && isSpecial(text, to, zone) =>
      val date = Cast(now, DateType, zone)
      // Spark takes a time zone behind the word, which changes nothing.
      text.eval().toString.trim.toLowerCase.takeWhile(_.isLetter) match {
        case "now" => Cast(now, to, zone)
        case "yesterday" => Cast(DateAdd(date, Literal(-1)), to, zone)
        case "tomorrow" => Cast(DateAdd(date, Literal(1)), to, zone)
        case _ => Cast(date, to, zone)
      }
  }

  private def isSpecial(text: Expression, to: DataType, zone: Option[String]): Boolean =
    Option(text.eval()).map(_.toString).exists { s =>
      val id = java.time.ZoneId.of(zone.getOrElse("UTC"), java.time.ZoneId.SHORT_IDS)
      val known = to match {
        case DateType => convertSpecialDate(s, id)
        case TimestampType => convertSpecialTimestamp(s, id)
        case _ => convertSpecialTimestampNTZ(s, id)
      }
      known.isDefined && !s.trim.toLowerCase.startsWith("epoch")
    }

  /** An inner join is a product that is filtered; an outer one filters the side that it may pad, or compares with a column of the other. */
  private def overJoin(join: Join): LogicalPlan = {
    val (clocked, rest) = splitConjunctivePredicates(join.condition.get).partition(isRead)
    def withColumn(conjuncts: Seq[Expression]): Join = {
      val instant = Alias(now, now.name)()
      val compared = conjuncts.map(_.transform { case a: Attribute if a.exprId == now.exprId => instant.toAttribute })
      val left = if (conjuncts.isEmpty) join.left else Project(join.left.output :+ instant, join.left)
      join.copy(left = left, condition = (rest ++ compared).reduceOption(And))
    }
    join.joinType match {
      case _: InnerLike => Filter(clocked.reduce(And), join.copy(condition = rest.reduceOption(And)))
      case LeftOuter | LeftSemi | LeftAnti | ExistenceJoin(_) =>
        val (ofRight, ofBoth) = clocked.partition(within(_, join.right))
        val filtered = ofRight.reduceOption(And).fold(join.right)(Filter(_, join.right))
        Project(join.output, withColumn(ofBoth).copy(right = filtered))
      case RightOuter if clocked.forall(within(_, join.left)) =>
        join.copy(left = Filter(clocked.reduce(And), join.left), condition = rest.reduceOption(And))
      case _ => Project(join.output, withColumn(clocked))
    }
  }

  private def within(e: Expression, side: LogicalPlan): Boolean = (e.references - now).subsetOf(side.outputSet)

  /** Keys and arguments are computed below; what is made of the results reads the clock above, in the projection that the reader makes. */
  private def overAggregate(aggregate: Aggregate): LogicalPlan = {
    val below = new Below
    val keys = aggregate.groupingExpressions.map(below.bound)
    val keyOf = aggregate.groupingExpressions.zip(keys)
    def bound(e: Expression): Expression = keyOf
      .collectFirst { case (key, out) if key.semanticEquals(e) => out }
      .getOrElse(e match {
        case call: AggregateExpression => below.bound(call)
        case other => other.mapChildren(bound)
      })
    val list = aggregate.aggregateExpressions.map {
      case alias: Alias => alias.withNewChildren(Seq(bound(alias.child))).asInstanceOf[NamedExpression]
      case other => other
    }
    aggregate.copy(keys, list, below.over(aggregate.child))
  }

  /** The projection below an operator: what the operator reads of the clock, each expression once. */
  private class Below {
    private val made = mutable.LinkedHashMap.empty[Expression, Alias]

    /** `e` with columns in place of the largest expressions that read the clock and can be columns. */
    def bound(e: Expression): Expression = e match {
      case e if !isRead(e) => e
      case _: Alias | _: WindowExpression | _: WindowSpecDefinition | _: WindowFrame | _: SortOrder |
          _: AggregateExpression | _: AggregateFunction | _: WindowFunction | _: Generator =>
        e.mapChildren(bound)
      case e => made.getOrElseUpdate(e.canonicalized, Alias(e, Meaning.text(e))()).toAttribute
    }

    def over(child: LogicalPlan): LogicalPlan = Project(child.output ++ made.values, child)
  }
}
