package org.apache.spark.sql.streamtable

import java.util.{List => JavaList}
import java.util.concurrent.ConcurrentHashMap

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import py4j.Py4JException

import org.apache.spark.sql.SparkSession

/** What Python implements over py4j: all decisions are made there. Answers are JSON, an error is an answer too. */
trait Handler {

  /** Reads the statement and answers `{"schema": <StructType JSON>}`. */
  def describe(session: SparkSession, sql: String): String

  /** Carries the statement out and answers `{"rows": [[...], ...]}`. */
  def run(session: SparkSession, sql: String): String

  /** Answers the columns of a table function, as `describe` does. */
  def describeFunction(name: String, arguments: JavaList[String]): String

  /** Answers its rows, as `run` does. */
  def callFunction(session: SparkSession, name: String, arguments: JavaList[String]): String

  /** Answers an error if `operation` is not to be done to a table because stream tables read it. */
  def checkSourceDdl(session: SparkSession, operation: String, name: String, path: String): String
}

/** The registered handler, and the reading of its answers. */
object Handlers {

  private val mapper = new ObjectMapper()
  private val thrown = new ConcurrentHashMap[String, Throwable]()
  @volatile private var current: Option[Handler] = None

  /** Makes `handler` answer all statements of this JVM. */
  def set(handler: Handler): Unit = current = Option(handler)

  private[streamtable] def registered: Option[Handler] = current

  /** Keeps what Spark raised inside the handler, so that the error answer with this id throws it unchanged. */
  def keep(id: String, exception: Throwable): Unit = thrown.put(id, exception)

  /** Asks for the result type of a statement. */
  def describe(session: SparkSession, sql: String): JsonNode = answer(_.describe(session, sql)).get("schema")

  /** Carries a statement out and gives its rows. */
  def run(session: SparkSession, sql: String): JsonNode = answer(_.run(session, sql)).get("rows")

  /** Asks for the result type of a table function. */
  def describeFunction(name: String, arguments: JavaList[String]): JsonNode = answer(_.describeFunction(name, arguments)).get("schema")

  /** Calls a table function and gives its rows. */
  def callFunction(session: SparkSession, name: String, arguments: JavaList[String]): JsonNode =
    answer(_.callFunction(session, name, arguments)).get("rows")

  /** Raises what speaks against changing the shape of a table. */
  def checkSourceDdl(session: SparkSession, operation: String, name: String, path: String): Unit =
    answer(_.checkSourceDdl(session, operation, name, path))

  private def answer(ask: Handler => String): JsonNode = {
    val handler = current.getOrElse(PythonChild.handler())
    val text =
      try ask(handler)
      catch {
        case e: Py4JException =>
          throw notEnabled("no answer came from the Python process", "try again: where it ended, another is started", Some(e))
      }
    val node = mapper.readTree(text)
    Option(node.get("error")).foreach(error => throw toException(error))
    node
  }

  private def toException(error: JsonNode): Throwable = {
    val id = error.get("id").asText
    Option(thrown.remove(id)).getOrElse(
      new StreamTableException(
        error.get("condition").asText,
        error.get("sqlState").asText,
        error.get("message").asText,
        Map("id" -> id)))
  }

  private[streamtable] def notEnabled(reason: String, hint: String, cause: Option[Throwable]) =
    StreamTableException("STREAMTABLE_NOT_ENABLED", "55000", reason, hint, cause)
}
