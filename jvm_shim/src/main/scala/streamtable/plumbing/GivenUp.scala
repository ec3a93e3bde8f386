package org.apache.spark.sql.hive.thriftserver.streamtable

import java.util.Properties

import scala.collection.mutable

import org.apache.spark.SparkContext
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent, SparkListenerJobStart}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connect.service._
import org.apache.spark.sql.execution.SQLExecution.EXECUTION_ID_KEY
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd
import org.apache.spark.sql.hive.thriftserver.ui._
import org.apache.spark.sql.streamtable.Versions

/**
 * Ends the jobs of statements that their clients gave up: by cancelling, by closing the statement or its session, by leaving, by a timeout.
 *
 * Spark cancels the jobs that run at that moment. A statement that is being planned begins its jobs afterwards. A job before a shuffle is
 * begun by a thread of Spark's that nobody interrupts, and the scheduler begins it although its group was cancelled with its future
 * jobs. Nobody would wait for it, and it would keep the cores until its end.
 */
object GivenUp {

  /** Watches the statements of Thrift and of Spark Connect from now on. */
  def watch(session: SparkSession): Unit = {
    session.sparkContext.addSparkListener(new GivenUp(session.sparkContext))
    session.sparkContext.addSparkListener(new Ended(session.sparkContext))
  }

  private val remembered = 10000

  private[streamtable] def remember[T](some: mutable.LinkedHashSet[T], one: T): Unit = {
    some.add(one)
    if (some.size > remembered) some.remove(some.head)
  }
}

/** All its events come on one thread, in the order in which they were told. */
private class GivenUp(spark: SparkContext) extends SparkListener {

  /** The groups of Thrift's statements, and the tags of Spark Connect's. */
  private val running = mutable.Set.empty[String]

  private val over = mutable.LinkedHashSet.empty[String]

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case e: SparkListenerThriftServerOperationStart => running.add(e.id)
    case e: SparkListenerThriftServerOperationFinish => running.remove(e.id)
    case e: SparkListenerThriftServerOperationError => endGroup(e.id)
    case e: SparkListenerThriftServerOperationCanceled => endGroup(e.id)
    case e: SparkListenerThriftServerOperationTimeout => endGroup(e.id)
    case e: SparkListenerThriftServerOperationClosed => endGroup(e.id)
    case e: SparkListenerConnectOperationStarted => running.add(e.jobTag)
    case e: SparkListenerConnectOperationFinished => running.remove(e.jobTag)
    case e: SparkListenerConnectOperationFailed => endTag(e.jobTag)
    case e: SparkListenerConnectOperationCanceled => endTag(e.jobTag)
    case e: SparkListenerConnectOperationClosed => endTag(e.jobTag)
    case _ =>
  }

  override def onJobStart(job: SparkListenerJobStart): Unit =
    if (Option(job.properties).exists(marks(_).exists(over.contains))) spark.cancelJob(job.jobId)

  private def endGroup(group: String): Unit = if (ends(group)) spark.cancelJobGroupAndFutureJobs(group)

  private def endTag(tag: String): Unit = if (ends(tag)) spark.cancelJobsWithTag(tag)

  /** Whether a statement had not come to its end; what begins after it has no business any more. */
  private def ends(mark: String): Boolean = running.remove(mark) && {
    GivenUp.remember(over, mark)
    !spark.isStopped
  }

  private def marks(properties: Properties): Seq[String] = {
    val group = Option(properties.getProperty(SparkContext.SPARK_JOB_GROUP_ID))
    val tags = Option(properties.getProperty(SparkContext.SPARK_JOB_TAGS))
    group.toSeq ++ tags.toSeq.flatMap(_.split(SparkContext.SPARK_JOB_TAGS_SEP))
  }
}

/**
 * Lets Spark forget the jobs of queries that have ended. It does so itself at the end of a query, but keeps a job that begins after that for
 * ever, and with the job the session of the query.
 */
private class Ended(spark: SparkContext) extends SparkListener {

  private val ended = mutable.LinkedHashSet.empty[Long]

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case e: SparkListenerSQLExecutionEnd =>
      GivenUp.remember(ended, e.executionId)
      forget(e.executionId)
    case _ =>
  }

  override def onJobStart(job: SparkListenerJobStart): Unit =
    for {
      properties <- Option(job.properties)
      id <- Option(properties.getProperty(EXECUTION_ID_KEY)).map(_.toLong) if ended(id)
    } forget(id)

  private def forget(query: Long): Unit = if (!spark.isStopped) Versions.forgetJobs(spark, query)
}
