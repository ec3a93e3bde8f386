package org.apache.spark.sql.streamtable

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan, Union}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{Dataset, SparkSession => ClassicSession}
import org.apache.spark.sql.delta.commands.MergeIntoCommand
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.{ExecutedCommandExec, ExplainCommand, LeafRunnableCommand}

/**
 * Has a statement that writes wait for the stream tables IMMEDIATE above what it wrote. If the catalog has no mark of such tables,
 * the plan stays as it is. A command that may write then costs a look at the properties of one schema. The engine's own writes are
 * not followed. EXPLAIN shows the plan of the write itself.
 */
case class Followed(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (Followed.within.get || DirectWriteCheck.isEngine(session) || !plan.resolved || !Followed.runs(plan)) plan
    else
      plan match {
        case explain: ExplainCommand =>
          if (Followed.marked(session)) UnfollowedExplain(explain, explain.output) else plan
        case _ => if (DirectWriteCheck(session).mayWrite(plan) && Followed.marked(session)) followed(plan) else plan
      }

  private def followed(plan: LogicalPlan): LogicalPlan = {
    val places = DirectWriteCheck(session).places(plan)
    if (places.nonEmpty) FollowedCommand(plan, places, plan.output) else plan
  }
}

/** DeltaTable.merge() hands over its command as analysed, so that no rule sees it. */
case class FollowedMerge(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case merge: MergeIntoCommand =>
      Seq(Followed(session)(merge)).collect { case followed: FollowedCommand => ExecutedCommandExec(followed) }
    case _ => Nil
  }
}

private object Followed extends Logging {

  /** The property of the schema `default` that tells of tables IMMEDIATE. */
  private val property = "streamtable.immediate"

  /** Whether a statement is being followed on this thread: what it does is a part of it. */
  private val within = ThreadLocal.withInitial[java.lang.Boolean](() => false)

  /** Whether Spark runs a plan at once: a command, or the several INSERTs of one statement. */
  private def runs(plan: LogicalPlan) = plan match {
    case _: FollowedCommand | _: UnfollowedExplain => false
    case _: Command => true
    case several: Union => several.children.forall(_.isInstanceOf[Command])
    case _ => false
  }

  /** A catalog that cannot be read fails no write by that. */
  private def marked(session: SparkSession): Boolean =
    try Places.schema(session, "default").exists(_.properties.get(property).contains("true"))
    catch {
      case e if harmless(e) =>
        logWarning("nobody knows whether stream tables are IMMEDIATE", e)
        false
    }

  /** Whether an error is not to fail the write: also a class of the metastore's that cannot be loaded. */
  private def harmless(e: Throwable) = NonFatal(e) || e.isInstanceOf[LinkageError]

  /** Does what plans statements that are not to be followed. */
  def unfollowed[T](work: => T): T = {
    within.set(true)
    try work
    finally within.set(false)
  }

  /** Writes to the tables at some places, and then has the tables above refreshed: of the write nothing is undone any more. */
  def carriedOut[T](session: SparkSession, places: Seq[String])(write: => T): T =
    unfollowed {
      val done = write
      try
        Handlers.follow(session, places).foreach(missed => logWarning(s"the write is committed, but $missed"))
      catch {
        case e if harmless(e) =>
          logWarning("the write is committed, but stream tables IMMEDIATE above it are not refreshed", e)
      }
      done
    }
}

/** EXPLAIN of a statement as it is, without what is to follow it. */
case class UnfollowedExplain(explain: ExplainCommand, override val output: Seq[Attribute]) extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = Followed.unfollowed(explain.run(session))
}

/** A statement that writes to the tables at some places, and what is to follow it. */
case class FollowedCommand(statement: LogicalPlan, places: Seq[String], override val output: Seq[Attribute])
    extends LeafRunnableCommand {

  override def innerChildren: Seq[QueryPlan[_]] = Seq(statement)

  override def run(session: SparkSession): Seq[Row] = carriedOut(session) {
    val done = Dataset.ofRows(session.asInstanceOf[ClassicSession], statement)
    if (output.isEmpty) Nil else done.collect().toSeq
  }

  /** Does what the statement does in another way, with the same to follow it. */
  def carriedOut[T](session: SparkSession)(write: => T): T = Followed.carriedOut(session, places)(write)

  /** Does what looks at the statement without what is to follow it. */
  def unfollowed[T](work: => T): T = Followed.unfollowed(work)
}
