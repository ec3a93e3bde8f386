package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.SetCommand
import org.apache.spark.sql.internal.SQLConf

/**
 * Has Python judge the value that SET gives a setting of ours. SET starts no Python: what it gave before is judged by the statement that
 * does. Settings below `python` and `patches` are read before Python is there.
 */
object CheckedSettings extends Rule[LogicalPlan] {

  private val ours = "spark.streamtable."
  private val readHere = Seq("python", "patches.").map(ours + _)

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case SetCommand(Some((key, Some(value)))) if isJudged(key) && Handlers.registered.isDefined =>
        Handlers.checkSetting(key, value)
      case _ =>
    }
    plan
  }

  /** Judges the settings of this session that were given before Python was there. */
  def judgeGiven(): Unit =
    for ((key, value) <- SQLConf.get.getAllConfs if isJudged(key)) Handlers.checkSetting(key, value)

  private def isJudged(key: String) = key.startsWith(ours) && !readHere.exists(key.startsWith(_))
}
