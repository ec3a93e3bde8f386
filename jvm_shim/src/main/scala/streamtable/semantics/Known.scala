package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.catalyst.util._
import org.apache.spark.sql.types.Metadata
import org.json4s._
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.parse

/**
 * Closed lists of what has a meaning beside the value of an expression. They hold the metadata of columns, and the expressions
 * that some rule replaces because they have no value of their own. What is on no list has no delta rule, since a rendered plan
 * might lose it.
 */
private object Known {

  /** Metadata by which no rule for batch queries changes an answer; the mark of sessions is read by [[SessionWindows]]. */
  private val keys: Set[String] = INTERNAL_METADATA_KEYS.toSet ++ Set(
    SessionWindow.marker,
    TimeWindow.marker,
    EventTimeWatermark.delayKey,
    METADATA_COL_ATTR_KEY,
    FileSourceMetadataAttribute.FILE_SOURCE_METADATA_COL_ATTR_KEY,
    CharVarcharUtils.CHAR_VARCHAR_TYPE_STRING_METADATA_KEY,
    ResolveDefaultColumns.CURRENT_DEFAULT_COLUMN_METADATA_KEY,
    ResolveDefaultColumns.EXISTS_DEFAULT_COLUMN_METADATA_KEY,
    GeneratedColumn.GENERATION_EXPRESSION_METADATA_KEY,
    "__COLLATIONS",
    "__funcInputAlias", // of the arguments of an SQL function
    "__is_duplicate",
    "__dataset_id",
    "__col_position",
    "comment")

  /** Of Delta, which has applied it when the relation is read: column mapping, generated and identity columns, type changes. */
  private val ofDelta = "delta."

  def obstacles(plan: LogicalPlan): Seq[JObject] = {
    val expressions = plan.collect {
      case node if node.children.nonEmpty => node.expressions.flatMap(_.collect { case e => e })
    }.flatten
    val metadata = expressions
      .collect { case named: NamedExpression if named.resolved => named }
      .flatMap(named =>
        keysOf(named)
          .filterNot(known)
          .map(key => obstacle(s"Column ${named.name}", s"its metadata $key has no meaning that is known here")))
    val unevaluable = expressions
      .collect { case e: Unevaluable if !isKnown(e) => e }
      .map(e => obstacle(e.nodeName, "Spark replaces it when it plans the query, by what is not known here"))
    (metadata ++ unevaluable).distinct
  }

  def obstacle(name: String, reason: String): JObject = ("name" -> name) ~ ("reason" -> reason)

  private def known(key: String): Boolean = keys(key) || key.startsWith(ofDelta)

  private def keysOf(named: NamedExpression): Seq[String] =
    if (named.metadata == Metadata.empty) Nil else parse(named.metadata.json).asInstanceOf[JObject].obj.map(_._1)

  private def isKnown(e: Expression): Boolean = e match {
    case _: AttributeReference | _: OuterReference | _: SubqueryExpression | _: InSubquery => true
    case _: AggregateExpression | _: SortOrder | _: WindowExpression | _: WindowSpecDefinition | _: WindowFrame => true
    case _: SpecialFrameBoundary | _: FrameLessOffsetWindowFunction | _: PythonFuncExpression => true
    case _: With | _: CommonExpressionDef | _: CommonExpressionRef => true
    case _: CurrentUser | _: CurrentDatabase | _: CurrentCatalog | _: CurrentTimeZone => true
    case _ => Versions.isCurrentPath(e)
  }
}
