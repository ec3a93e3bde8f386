package org.apache.spark.sql.streamtable

import java.io.{PrintStream, PrintWriter}
import java.lang.reflect.Field
import java.util.{Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.hive.conf.HiveConf
import org.apache.hive.service.CompositeService
import org.apache.hive.service.cli._
import org.apache.hive.service.cli.thrift.{ThriftBinaryCLIService, ThriftCLIService}
import org.apache.hive.service.rpc.thrift.{TStatus, TStatusCode}

/**
 * Errors of ours as clients of Thrift see them: text and SQLSTATE alone. Spark puts the name of a Java class before the text, and a stack of
 * eighty lines behind it.
 */
object ThriftErrors {

  /** Tells the clients of a HiveServer2 errors of ours in our words from now on. */
  def plain(hive: CompositeService): Unit =
    hive.getServices.asScala.collect { case thrift: ThriftBinaryCLIService => thrift }.foreach { thrift =>
      val field = Hidden.field(classOf[ThriftCLIService], "cliService")
      field.set(thrift, new PlainService(field.get(thrift).asInstanceOf[CLIService]))
    }

  private[streamtable] def plain(error: HiveSQLException): HiveSQLException =
    Iterator
      .iterate[Throwable](error)(_.getCause)
      .takeWhile(_ != null)
      .take(16) // a chain may bite its tail
      .collectFirst { case ours: StreamTableException => new PlainError(ours.getMessage, ours.getSqlState) }
      .getOrElse(error)
}

/** Fields of others that nothing else leads to. */
private object Hidden {

  def field(of: Class[_], name: String): Field = {
    val found = of.getDeclaredField(name)
    found.setAccessible(true)
    found
  }
}

/** What Thrift asks of `own`, which shares its sessions with it. */
private class PlainService(own: CLIService) extends CLIService(null) {

  Seq("sessionManager", "hiveConf")
    .map(Hidden.field(classOf[CLIService], _))
    .foreach(each => each.set(this, each.get(own)))

  override def getHiveConf: HiveConf = own.getHiveConf

  override def getInfo(session: SessionHandle, kind: GetInfoType): GetInfoValue = own.getInfo(session, kind)

  override def executeStatement(session: SessionHandle, sql: String, conf: JavaMap[String, String]): OperationHandle =
    plainly(own.executeStatement(session, sql, conf))

  override def executeStatement(
      session: SessionHandle,
      sql: String,
      conf: JavaMap[String, String],
      seconds: Long): OperationHandle =
    plainly(own.executeStatement(session, sql, conf, seconds))

  override def executeStatementAsync(
      session: SessionHandle,
      sql: String,
      conf: JavaMap[String, String]): OperationHandle =
    plainly(own.executeStatementAsync(session, sql, conf))

  override def executeStatementAsync(
      session: SessionHandle,
      sql: String,
      conf: JavaMap[String, String],
      seconds: Long): OperationHandle =
    plainly(own.executeStatementAsync(session, sql, conf, seconds))

  override def getOperationStatus(operation: OperationHandle): OperationStatus = {
    val status = own.getOperationStatus(operation)
    Option(status.getOperationException).fold(status)(error =>
      new OperationStatus(status.getState, ThriftErrors.plain(error)))
  }

  private def plainly[A](call: => A): A =
    try call
    catch { case error: HiveSQLException => throw ThriftErrors.plain(error) }
}

/** An error that prints as its text. */
private class PlainError(text: String, state: String) extends HiveSQLException(text, state) {

  override def fillInStackTrace(): Throwable = this

  override def printStackTrace(to: PrintWriter): Unit = to.print(getMessage)
  override def printStackTrace(to: PrintStream): Unit = to.print(getMessage)

  override def toTStatus(): TStatus = {
    val status = new TStatus(TStatusCode.ERROR_STATUS)
    status.setSqlState(getSQLState)
    status.setErrorCode(getErrorCode)
    status.setErrorMessage(getMessage)
    status
  }
}
