package org.apache.spark.sql.streamtable

import java.util.{Collections, WeakHashMap}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.SetCommand

/**
 * Has Python judge the value that SET gives a setting of ours. SET starts no Python: what it gave before is judged by the first statement of
 * ours in each session. Settings below `python` and `patches` are read before Python is there.
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

  private val judged = Collections.synchronizedMap(new WeakHashMap[SparkSession, java.lang.Boolean])

  /** Has all sessions judged again: from now on another Python answers, and nobody has judged what was SET before it came. */
  def forget(): Unit = judged.clear()

  /** Judges the settings that a session may have been given while no Python was there; it is judged until it passes. */
  def judgeGiven(session: SparkSession): Unit =
    if (PythonChild.serves && !judged.containsKey(session)) {
      for ((key, value) <- session.sessionState.conf.getAllConfs if isJudged(key)) Handlers.checkSetting(key, value)
      judged.put(session, true)
    }

  private def isJudged(key: String) = key.startsWith(ours) && !readHere.exists(key.startsWith(_))
}
