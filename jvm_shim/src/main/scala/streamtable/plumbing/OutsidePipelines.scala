package org.apache.spark.sql.streamtable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.Origin

/**
 * `CREATE STREAMING TABLE`, which Spark reads since 4.1 and carries out in its pipelines alone: elsewhere Python says which stream table it
 * means. A pipeline takes the statement as it was parsed, and has its query analysed, so that it does not come here.
 */
case class OutsidePipelines(session: SparkSession) extends Rule[LogicalPlan] {
  import OutsidePipelines._

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case command: Command if names(command.getClass.getSimpleName) =>
        written(command.origin).filter(Slips.in).foreach(StreamTableCommand.parse(session, _))
      case _ =>
    }
    plan
  }
}

object OutsidePipelines {

  private val names = Set("CreateStreamingTable", "CreateStreamingTableAsSelect")

  /** The statement alone, of a text that may have others. Places are counted in code points, strings in UTF-16 units. */
  private def written(origin: Origin): Option[String] = for {
    text <- origin.sqlText
    from <- origin.startIndex
    to <- origin.stopIndex
    if 0 <= from && from <= to && to < text.codePointCount(0, text.length)
  } yield text.substring(text.offsetByCodePoints(0, from), text.offsetByCodePoints(0, to + 1))
}
