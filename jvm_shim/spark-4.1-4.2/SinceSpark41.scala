package org.apache.spark.sql.streamtable

import org.apache.spark.connect.proto
import org.apache.spark.sql.{AnalysisException, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.analysis.{ExpandStarParameters, UnresolvedStar, UnresolvedStarExceptOrReplace}
import org.apache.spark.sql.catalyst.expressions.{CurrentTime, EvalMode, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum
import org.apache.spark.sql.catalyst.plans.logical.{AddCheckConstraint, LogicalPlan, UnionLoop}
import org.apache.spark.sql.connect.utils.PlanCompressionUtils
import org.apache.spark.sql.types.{DataType, GeographyType, GeometryType}

/** What Spark has since 4.1, for code that all versions share. */
private[sql] trait SinceSpark41 {

  /** Statements with parameters come to the parser together with the values. */
  def inject(extensions: SparkSessionExtensions): Unit = ()

  def isCurrentTime(e: Expression): Boolean = e.isInstanceOf[CurrentTime]

  def isSpatial(t: DataType): Boolean = t.isInstanceOf[GeometryType] || t.isInstanceOf[GeographyType]

  def evalMode(sum: Sum): EvalMode.Value = sum.evalContext.evalMode

  def runsRecursion: Boolean = true

  /** The greatest number of levels of a recursion, where the query gives one. */
  def maxDepth(loop: UnionLoop): Option[Int] = loop.maxDepth

  /** The table that gets a CHECK constraint. */
  def constrained(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case w: AddCheckConstraint => Some(w.child)
    case _ => None
  }

  /** The plan in a compressed message of Spark Connect. */
  def decompressed(plan: proto.Plan): Option[proto.Plan] =
    Option.when(plan.hasCompressedOperation)(PlanCompressionUtils.decompressPlan(plan))
}

/** An error with a condition and an SQLSTATE that are not in Spark's own list. */
private[streamtable] abstract class ForeignCondition(
    condition: String,
    sqlState: String,
    text: String,
    parameters: Map[String, String],
    cause: Option[Throwable])
    extends AnalysisException(
      message = text,
      line = None,
      startPosition = None,
      cause = cause,
      errorClass = Some(condition),
      messageParameters = parameters,
      context = Array.empty,
      sqlState = Some(sqlState),
      messageTemplate = Some(text))

/** `t.*` whose columns are changed after Spark has found them. */
private[streamtable] abstract class ChangedStar(of: UnresolvedStar) extends UnresolvedStar(of.target) {
  protected def changed(columns: Seq[NamedExpression]): Seq[NamedExpression]
  override def expandStar(parameters: ExpandStarParameters): Seq[NamedExpression] = changed(
    super.expandStar(parameters))
}

/** `t.* EXCEPT (...)` whose columns are changed after Spark has found them. */
private[streamtable] abstract class ChangedStarExcept(of: UnresolvedStarExceptOrReplace)
    extends UnresolvedStarExceptOrReplace(of.target, of.excepts, of.replacements) {
  protected def changed(columns: Seq[NamedExpression]): Seq[NamedExpression]
  override def expandStar(parameters: ExpandStarParameters): Seq[NamedExpression] = changed(
    super.expandStar(parameters))
}
