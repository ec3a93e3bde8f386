package org.apache.spark.sql.streamtable

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.connector.catalog.TableWritePrivilege.INSERT

/** What Spark 4.1 has otherwise than the other versions; what it shares with 4.2 is in [[SinceSpark41]]. */
private[sql] object Versions extends SinceSpark41 {

  /** The version whose jar this is. */
  val spark = "4.1"

  /** Spark remembers the jobs of queries since 4.2. */
  def forgetJobs(spark: SparkContext, query: Long): Unit = ()

  /** The relation that an INSERT asks the catalog for. */
  def inserting(relation: UnresolvedRelation): UnresolvedRelation = relation.requireWritePrivileges(Seq(INSERT))

  def isCurrentPath(e: Expression): Boolean = false

  /** Of max_by(x, y, k) and min_by(x, y, k): x, y, and the same with another y. Spark has them since 4.2. */
  def severalBy(e: Expression): Option[(Expression, Expression, Expression => Expression)] = None
}
