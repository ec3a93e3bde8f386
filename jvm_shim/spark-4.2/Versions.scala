package org.apache.spark.sql.streamtable

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.{CurrentPath, Expression}
import org.apache.spark.sql.catalyst.expressions.aggregate.MaxMinByK
import org.apache.spark.sql.connector.catalog.TableWritePrivilege.INSERT

/** What Spark 4.2 has otherwise than the other versions; what it shares with 4.1 is in [[SinceSpark41]]. */
private[sql] object Versions extends SinceSpark41 {

  /** The version whose jar this is. */
  val spark = "4.2"

  /** Has Spark forget which jobs a query had. A context that is being stopped has no scheduler any more. */
  def forgetJobs(spark: SparkContext, query: Long): Unit = Option(spark.dagScheduler).foreach(_.cleanupQueryJobs(query))

  /** The relation that an INSERT asks the catalog for. */
  def inserting(relation: UnresolvedRelation): UnresolvedRelation = relation.requireWritePrivileges(Set(INSERT))

  def isCurrentPath(e: Expression): Boolean = e.isInstanceOf[CurrentPath]

  /** Of max_by(x, y, k) and min_by(x, y, k): x, y, and the same with another y. */
  def severalBy(e: Expression): Option[(Expression, Expression, Expression => Expression)] = e match {
    case several: MaxMinByK =>
      Some((several.valueExpr, several.orderingExpr, (order: Expression) => several.copy(orderingExpr = order)))
    case _ => None
  }
}
