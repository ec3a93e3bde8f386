package org.apache.spark.sql.streamtable

import org.apache.spark.{QueryContext, SparkContext}
import org.apache.spark.connect.proto
import org.apache.spark.sql.{AnalysisException, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.analysis._
import org.apache.spark.sql.catalyst.expressions.{Attribute, EvalMode, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnionLoop}
import org.apache.spark.sql.connector.catalog.TableWritePrivilege.INSERT
import org.apache.spark.sql.types.DataType

/** What Spark 4.0 has otherwise than the other versions. It knows no TIME, no GEOMETRY, no recursion and no compressed plans. */
private[sql] object Versions {

  /** The version whose jar this is. */
  val spark = "4.0"

  /** Spark remembers the jobs of queries since 4.2. */
  def forgetJobs(spark: SparkContext, query: Long): Unit = ()

  /** Statements with parameters get their values after they were parsed. */
  def inject(extensions: SparkSessionExtensions): Unit = {
    extensions.injectResolutionRule(_ => BoundStatements)
    extensions.injectPostHocResolutionRule(_ => UnboundStatements)
  }

  /** The relation that an INSERT asks the catalog for. */
  def inserting(relation: UnresolvedRelation): UnresolvedRelation = relation.requireWritePrivileges(Seq(INSERT))

  def isCurrentPath(e: Expression): Boolean = false

  /** Of max_by(x, y, k) and min_by(x, y, k): x, y, and the same with another y. Spark has them since 4.2. */
  def severalBy(e: Expression): Option[(Expression, Expression, Expression => Expression)] = None

  def isCurrentTime(e: Expression): Boolean = false

  def isSpatial(t: DataType): Boolean = false

  def evalMode(sum: Sum): EvalMode.Value = sum.evalMode

  /** Spark 4.0 has the nodes of a recursive query, and its optimiser fails on them. */
  def runsRecursion: Boolean = false

  /** The greatest number of levels of a recursion, where the query gives one. */
  def maxDepth(loop: UnionLoop): Option[Int] = None

  /** The table that gets a CHECK constraint: here that is a command of Delta's. */
  def constrained(plan: LogicalPlan): Option[LogicalPlan] = None

  /** The plan in a compressed message of Spark Connect. */
  def decompressed(plan: proto.Plan): Option[proto.Plan] = None
}

/** An error with a condition and an SQLSTATE that are not in Spark's own list. */
private[streamtable] abstract class ForeignCondition(
    condition: String,
    sqlState: String,
    text: String,
    parameters: Map[String, String],
    cause: Option[Throwable])
    extends AnalysisException(text, None, None, cause, Some(condition), parameters, Array.empty[QueryContext]) {
  override def getSqlState: String = sqlState
}

/** `t.*` whose columns are changed after Spark has found them. */
private[streamtable] abstract class ChangedStar(of: UnresolvedStar) extends UnresolvedStar(of.target) {
  protected def changed(columns: Seq[NamedExpression]): Seq[NamedExpression]
  override def expandStar(
      columns: Seq[Attribute],
      metadata: Seq[Attribute],
      resolve: (Seq[String], Resolver) => Option[NamedExpression],
      suggested: Seq[Attribute],
      resolver: Resolver,
      cleaned: Boolean): Seq[NamedExpression] =
    changed(super.expandStar(columns, metadata, resolve, suggested, resolver, cleaned))
}

/** `t.* EXCEPT (...)` whose columns are changed after Spark has found them. */
private[streamtable] abstract class ChangedStarExcept(of: UnresolvedStarExceptOrReplace)
    extends UnresolvedStarExceptOrReplace(of.target, of.excepts, of.replacements) {
  protected def changed(columns: Seq[NamedExpression]): Seq[NamedExpression]
  override def expandStar(
      columns: Seq[Attribute],
      metadata: Seq[Attribute],
      resolve: (Seq[String], Resolver) => Option[NamedExpression],
      suggested: Seq[Attribute],
      resolver: Resolver,
      cleaned: Boolean): Seq[NamedExpression] =
    changed(super.expandStar(columns, metadata, resolve, suggested, resolver, cleaned))
}
