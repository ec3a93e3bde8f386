package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions.ExpressionWithRandomSeed
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Sample}

/** Seeds that Spark draws for each analysis, because nobody wrote one. A plan is the same with other ones. */
private object Seeds {

  /** The plan with one seed in the place of all that were drawn: what Spark computes in the place of `uniform` shows its seed. */
  def one(plan: LogicalPlan): LogicalPlan = plan.transformAllExpressionsWithSubqueries {
    case e: ExpressionWithRandomSeed with Product if isHidden(e) => e.withNewSeed(0L)
  }

  /** Whether the text of an expression has no seed. */
  private def isHidden(e: Product): Boolean = e.productElementNames.zip(e.productIterator).contains("hideSeed" -> true)

  /** Whether the seed of a sample was drawn: its text has no REPEATABLE. */
  def isDrawn(sample: Sample): Boolean = {
    val origin = sample.origin
    origin.sqlText.exists { text =>
      val own = text.slice(origin.startIndex.getOrElse(0), origin.stopIndex.getOrElse(text.length) + 1)
      !own.toUpperCase.contains("REPEATABLE")
    }
  }
}
