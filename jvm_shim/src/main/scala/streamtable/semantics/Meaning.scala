package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Collect}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Range, SubqueryAlias, View}
import org.apache.spark.sql.catalyst.trees.TreeNode
import org.apache.spark.sql.types.{DataType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * What tells expressions apart whose text is the same. The text of an expression shows the names of columns, not whose they are; it leaves
 * out variables of lambdas, and arguments that are no expressions: IGNORE NULLS, the patterns of LIKE ANY, the options of from_json.
 *
 * Two expressions compute the same value of the same row if their texts, their inputs and these lists are equal. What is not known here is
 * in the list: it may tell apart what is equal, never the reverse.
 */
private[streamtable] object Meaning {

  /**
   * The expression for people: column names without their tables. Some expressions of Spark show the numbers of attributes and of the
   * variables of lambdas, which differ each time; here they count from 0.
   */
  def text(e: Expression): String = {
    val numbers = scala.collection.mutable.Map.empty[ExprId, ExprId]
    def numbered(id: ExprId): ExprId = numbers.getOrElseUpdate(id, ExprId(numbers.size))
    e.transformUp {
      case a: AttributeReference => a.withQualifier(Nil).withExprId(numbered(a.exprId))
      case v: NamedLambdaVariable => v.copy(exprId = numbered(v.exprId))
    }.sql
  }

  /** What the text of an expression does not show; empty where the text identifies it among expressions over the same inputs. */
  def unshown(e: Expression): List[String] = {
    val variables = e.collect { case variable(id) => id }.distinct.zipWithIndex.toMap
    val columns = e match {
      case Equality(_: AttributeReference, _: AttributeReference) => Nil // its sides may be exchanged
      case _ => e.collect { case a: AttributeReference => a }
    }
    val twins = columns.map(_.exprId).distinct.size > columns.map(_.name).distinct.size
    def of(e: Expression): Seq[String] = e match {
      case a: AttributeReference => if (twins) Seq(PlanReader.name(a)) else Nil
      case variable(id) => if (variables.size > 1) Seq(s"variable ${variables(id)}") else Nil
      case s: SubqueryExpression => unshown(s.plan) ++ s.children.flatMap(of)
      case s: InheritAnalysisRules => own(s) ++ s.parameters.flatMap(of)
      case other => own(other) ++ other.children.flatMap(of)
    }
    of(e).toList
  }

  /** The id of what stands for a value within an expression: of a variable of a lambda, or of an expression that is computed once. */
  private object variable {
    def unapply(e: Expression): Option[Any] = e match {
      case v: NamedLambdaVariable => Some(v.exprId)
      case r: CommonExpressionRef => Some(r.id)
      case _ => None
    }
  }

  /** All that a plan is, with what is below, tables by their ids. */
  def unshown(plan: LogicalPlan): List[String] = plan match {
    case _: SubqueryAlias | _: View => unshown(plan.children.head)
    case _ =>
      val expressions =
        plan.expressions.flatMap(e => text(e) +: e.references.toSeq.map(PlanReader.name) ++: unshown(e)).toList
      val own = plan match {
        case PlanReader.DeltaSource(_, index, _) if index.isTimeTravelQuery =>
          Seq(index.metadata.id, index.getSnapshot.version.toString)
        case PlanReader.DeltaSource(_, index, _) => Seq(index.metadata.id)
        case leaf if leaf.children.isEmpty => rows(leaf) +: PlanReader.sourceName(leaf).toSeq
        case other => arguments(other)
      }
      (plan.nodeName +: own) ++: expressions ++: plan.children.toList.flatMap(unshown)
  }

  /** What tells one constant relation from another. */
  def rows(plan: LogicalPlan): String = plan match {
    case local: LocalRelation =>
      val types = local.output.map(_.dataType)
      local.data
        .map(_.toSeq(types).zip(types).map { case (value, of) => Literal(value, of).sql }.mkString(", "))
        .mkString("; ")
    case range: Range => s"${range.start} ${range.end} ${range.step}"
    case _ => ""
  }

  /** The arguments of an expression that its text does not show. Those of the classes here are shown, or follow from the others. */
  private def own(e: Expression): Seq[String] = e match {
    case _: Literal | _: NamedExpression | _: AggregateExpression | _: Cast | _: SortOrder | _: WindowSpec |
        _: WindowFrame | _: WindowExpression | _: GetStructField | _: GetArrayStructFields | _: GetArrayItem |
        _: PreciseTimestampConversion | _: CommonExpressionDef | _: CommonExpressionRef | _: HashExpression[_] =>
      Nil
    case collect: Collect[_] with Product => // it ignores NULL where nothing else is written
      val asked = collect.productElementNames.zip(collect.productIterator).contains("ignoreNulls" -> false)
      if (asked) Seq("RESPECT NULLS") else Nil
    case other: Product => arguments(other)
    case other => Seq(className(other))
  }

  /** Names of arguments that follow from settings, which a definition keeps itself, or that belong to one analysis alone. */
  private val Elsewhere = Set(
    "timeZoneId",
    "evalMode",
    "evalContext",
    "failOnError",
    "ansiEnabled",
    "nullOnOverflow",
    "nullable",
    "resultId",
    "exprId",
    "cteId",
    "id",
    "loopId",
    "mutableAggBufferOffset",
    "inputAggBufferOffset",
    "allowNullComparisonResult",
    "followThreeValuedLogic",
    "useStringTypeWhenEmpty",
    "hideSeed",
    "nullOnDivideByZero",
    "suggestedFuncOnFail",
    "methodInputTypes",
    "inputTypes",
    "randomSeed")

  private def arguments(of: Product): Seq[String] =
    of.productElementNames.zip(of.productIterator).toSeq.filterNot { case (name, _) => Elsewhere(name) }.flatMap {
      case (name, value) => told(value).map(each => s"${className(of)}.$name $each")
    }

  private def told(value: Any): Seq[String] = value match {
    case null | None | false | '\\' | 0.05 | TimestampType =>
      Nil // where nothing is written: ESCAPE, an accuracy, a type
    case _: TreeNode[_] => Nil // an expression that is shown, or a plan below
    case Some(inner) => told(inner)
    case data: DataType => Seq(data.json)
    case map: scala.collection.Map[_, _] => map.map { case (k, v) => s"$k ${told(v).mkString(" ")}" }.toSeq.sorted
    case several: Iterable[_] => several.toSeq.flatMap(told)
    case _: Boolean | _: Number | _: Char | _: String | _: UTF8String => Seq(value.toString)
    case _: Enumeration#Value => Seq(value.toString)
    case named: Class[_] => Seq(named.getName)
    case product: Product =>
      val parts = product.productIterator.toSeq.flatMap(told)
      if (parts.isEmpty && product.productArity > 0) Nil else className(product) +: parts
    case other => Seq(className(other))
  }

  /** The class, without the number of a lambda, which differs in each process. */
  private def className(of: Any): String =
    of.getClass.getName.takeWhile(_ != '/').split("\\$\\$Lambda").head.split('.').last
}
