package org.apache.spark.sql.streamtable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Collect, PivotFirst}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Range, Sample, SubqueryAlias, View}
import org.apache.spark.sql.catalyst.trees.TreeNode
import org.apache.spark.sql.catalyst.util.DateTimeUtils.{getZoneId, microsToInstant}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{ArrayType, DataType, Decimal, MapType, StringType, StructType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * What tells expressions apart whose text is the same. The text of an expression shows the names of columns, but not their tables.
 * It leaves out variables of lambdas, and arguments that are no expressions: IGNORE NULLS, the patterns of LIKE ANY, the options
 * of from_json.
 *
 * Two expressions compute the same value of the same row if their texts, their inputs and these lists are equal. What is not known
 * here is in the list: it may tell apart what is equal, never the reverse.
 */
private[streamtable] object Meaning {

  /**
   * The expression for people: column names without their tables. Some expressions of Spark show the numbers of attributes, of the
   * variables of lambdas, and of what is computed once, which differ each time; here they count from 0.
   */
  def text(e: Expression): String = {
    val numbers = scala.collection.mutable.Map.empty[ExprId, ExprId]
    def numbered(id: ExprId): ExprId = numbers.getOrElseUpdate(id, ExprId(numbers.size))
    val common = scala.collection.mutable.Map.empty[CommonExpressionId, CommonExpressionId]
    def counted(id: CommonExpressionId): CommonExpressionId =
      common.getOrElseUpdate(id, CommonExpressionId(common.size, id.canonicalized))
    e.transformUp {
      case a: AttributeReference => a.withQualifier(Nil).withExprId(numbered(a.exprId))
      case v: NamedLambdaVariable => v.copy(exprId = numbered(v.exprId))
      case r: CommonExpressionRef => r.copy(id = counted(r.id))
      case d: CommonExpressionDef => d.copy(id = counted(d.id))
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
      case a: AttributeReference => if (twins) Seq(PlanReader.marked(a)) else Nil
      case variable(id) => if (variables.size > 1) Seq(s"variable ${variables(id)}") else Nil
      case s: SubqueryExpression => unshown(s.plan) ++ s.children.flatMap(of)
      case s: InheritAnalysisRules => own(s) ++ s.parameters.flatMap(of)
      case s: NonSQLExpression => own(s) ++ s.children.filterNot(isPlain).map(text) ++ s.children.flatMap(of)
      case other => own(other) ++ other.children.flatMap(of)
    }
    of(e).toList
  }

  /** Whether Spark shows it as it is within a call of Java, where it leaves out quotes and all but the first 25 arguments of a function. */
  private def isPlain(argument: Expression): Boolean = argument match {
    case Literal(_, of) => !of.isInstanceOf[StringType]
    case _: Attribute | _: NamedLambdaVariable | _: CommonExpressionRef => true
    case _ => false
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
        plan.expressions.flatMap(e => text(e) +: e.references.toSeq.map(PlanReader.marked) ++: unshown(e)).toList
      val own = plan match {
        case PlanReader.DeltaSource(_, index, _) if index.isTimeTravelQuery =>
          Seq(index.metadata.id, index.getSnapshot.version.toString)
        case PlanReader.DeltaSource(_, index, _) => Seq(index.metadata.id)
        case leaf if leaf.children.isEmpty => rows(leaf) +: PlanReader.sourceName(leaf).toSeq
        case sample: Sample if Seeds.isDrawn(sample) => arguments(sample).filterNot(_.startsWith("Sample.seed "))
        case other => arguments(other)
      }
      (plan.nodeName +: own) ++: expressions ++: plan.children.toList.flatMap(unshown)
  }

  /** What tells one constant relation from another. */
  def rows(plan: LogicalPlan): String = plan match {
    case local: LocalRelation =>
      val types = local.output.map(_.dataType)
      local.data
        .map(_.toSeq(types).zip(types).map { case (value, of) => spelled(Literal(value, of)) }.mkString(", "))
        .mkString("; ")
    case range: Range => s"${range.start} ${range.end} ${range.step}"
    case _ => ""
  }

  private def spelled(value: Literal): String = (value.sql +: own(value)).mkString(" ")

  /** The arguments of an expression that its text does not show. Those of the classes here are shown, or follow from the others. */
  private def own(e: Expression): Seq[String] = ofSettings(e) ++ (e match {
    case cast: Cast if isHidden(cast) =>
      Seq(s"${if (cast.evalMode == EvalMode.TRY) "TRY_CAST" else "CAST"} ${Shaped.plain(cast.dataType).sql}")
    case Literal(micros: Long, TimestampType) if comesTwice(micros) => Seq(micros.toString)
    case _: CurrentCatalog => Seq(s"the catalog ${current.head}")
    case _: CurrentDatabase => Seq(s"the schema ${current.tail.mkString(".")}")
    case path if Versions.isCurrentPath(path) => Seq(s"the path of ${current.mkString(".")}")
    case _: Literal | _: NamedExpression | _: AggregateExpression | _: Cast | _: SortOrder | _: WindowSpec |
        _: WindowFrame | _: WindowExpression | _: GetStructField | _: GetArrayStructFields | _: GetArrayItem |
        _: PreciseTimestampConversion | _: CommonExpressionDef | _: CommonExpressionRef | _: HashExpression[_] =>
      Nil
    case pivot: PivotFirst =>
      pivot.pivotColumnValues.map(value => s"PivotFirst ${spelled(Literal(value, pivot.pivotColumn.dataType))}")
    case collect: Collect[_] with Product => // it ignores NULL where nothing else is written
      val asked = collect.productElementNames.zip(collect.productIterator).contains("ignoreNulls" -> false)
      if (asked) Seq("RESPECT NULLS") else Nil
    case other: Product => arguments(other)
    case other => Seq(className(other))
  })

  /**
   * Settings that the expression was made with, and that differ from the session's. Such an expression comes from a view or a
   * function, which keep their settings, or replaces try_add and the like.
   */
  private def ofSettings(e: Expression): Seq[String] = {
    val zone = e match {
      case cast: Cast if !Cast.needsTimeZone(cast.child.dataType, cast.dataType) => None
      case zoned: TimeZoneAwareExpression => zoned.timeZoneId.filter(_ != SQLConf.get.sessionLocalTimeZone)
      case _ => None
    }
    val modes = e match {
      case sum: BinaryArithmetic with Product =>
        val arguments = sum.productIterator.flatMap[Any] {
          case _: Expression => Iterator.empty
          case context: Product => context.productIterator
          case mode => Iterator(mode)
        }
        arguments.collect { case mode: Enumeration#Value if mode != EvalMode.fromSQLConf(SQLConf.get) => mode }.toSeq
      case _ => Nil
    }
    zone.map(id => s"time zone $id").toSeq ++ modes.map(mode => s"arithmetic $mode")
  }

  /** The current catalog and schema: those of the definition, which has the value of a function that tells them. */
  private def current: Seq[String] = {
    val catalogs = SparkSession.active.sessionState.catalogManager
    (catalogs.currentCatalog.name +: catalogs.currentNamespace.toSeq).map(quoteIfNeeded)
  }

  /** Whether the text leaves a cast out, as it does casts to types with parts, and the cast changes more than whether parts may be NULL. */
  private def isHidden(cast: Cast): Boolean = cast.dataType match {
    case _: ArrayType | _: MapType | _: StructType =>
      Shaped.plain(cast.child.dataType).asNullable != Shaped.plain(cast.dataType).asNullable
    case _ => false
  }

  /** Whether clocks showed this time twice, so that the text names two instants. */
  private def comesTwice(micros: Long): Boolean = {
    val zone = getZoneId(SQLConf.get.sessionLocalTimeZone)
    zone.getRules.getValidOffsets(microsToInstant(micros).atZone(zone).toLocalDateTime).size > 1
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
    case set: scala.collection.Set[_] => set.toSeq.flatMap(told).sorted
    case several: Iterable[_] => several.toSeq.flatMap(element)
    case array: Array[_] => told(array.toSeq)
    case _: Boolean | _: Number | _: Char | _: String | _: UTF8String | _: Decimal => Seq(value.toString)
    case _: Enumeration#Value => Seq(value.toString)
    case named: Class[_] => Seq(named.getName)
    case product: Product =>
      val parts = product.productIterator.toSeq.flatMap(told)
      if (parts.isEmpty && product.productArity > 0) Nil else className(product) +: parts
    case other => Seq(className(other))
  }

  /** Where several arguments stand in a row, the place of each counts. */
  private def element(value: Any): Seq[String] = value match {
    case null | false => Seq(s"$value")
    case other => told(other)
  }

  /** The class, without the number of a lambda, which differs in each process. */
  private def className(of: Any): String =
    of.getClass.getName.takeWhile(_ != '/').split("\\$\\$Lambda").head.split('.').last
}
