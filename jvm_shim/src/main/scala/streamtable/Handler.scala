package org.apache.spark.sql.streamtable

import java.util.{Iterator => JavaIterator, List => JavaList}
import java.util.concurrent.ConcurrentHashMap

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import py4j.Py4JException

import org.apache.spark.sql.{Row, SparkSession}

/** What Python implements over py4j: all decisions are made there. Answers are JSON, an error is an answer too. */
trait Handler {

  /** Reads the statement and answers `{"schema": <StructType JSON>}`. */
  def describe(session: SparkSession, sql: String): String

  /** Carries the statement out and answers `{"rows": [[...], ...]}`, or `{"held": id}` for rows that never left the JVM. */
  def run(session: SparkSession, sql: String): String
}

/** The registered handler, and the reading of its answers. */
object Handlers {

  private val mapper = new ObjectMapper()
  private val thrown = new ConcurrentHashMap[String, Throwable]()
  private val held = new ConcurrentHashMap[String, JavaList[Row]]()
  @volatile private var current: Option[Handler] = None

  /** Makes `handler` answer all statements of this JVM. */
  def set(handler: Handler): Unit = current = Option(handler)

  /** Keeps what Spark raised inside the handler, so that the error answer with this id throws it unchanged. */
  def keep(id: String, exception: Throwable): Unit = thrown.put(id, exception)

  /** Holds the rows that the answer with this id stands for. */
  def hold(id: String, rows: JavaList[Row]): Unit = held.put(id, rows)

  /** Gives the rows that were held under an id, once. */
  def held(id: String): JavaList[Row] = held.remove(id)

  /** Moves at most `count` rows; Spark computes them as they are asked for. */
  def take(rows: JavaIterator[Row], count: Int, into: JavaList[Row]): Unit =
    (0 until count).iterator.takeWhile(_ => rows.hasNext).foreach(_ => into.add(rows.next()))

  /** Asks for the result type of a statement. */
  def describe(session: SparkSession, sql: String): JsonNode = answer(_.describe(session, sql)).get("schema")

  /** Carries a statement out and gives the answer. */
  def run(session: SparkSession, sql: String): JsonNode = answer(_.run(session, sql))

  private def answer(ask: Handler => String): JsonNode = {
    val handler = current.getOrElse(throw notEnabled("no Python process answers stream table statements here", None))
    val text =
      try ask(handler)
      catch { case e: Py4JException => throw notEnabled("no answer came from the Python process", Some(e)) }
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

  private def notEnabled(reason: String, cause: Option[Throwable]) =
    StreamTableException(
      "STREAMTABLE_NOT_ENABLED",
      "55000",
      reason,
      "call streamtable.enable(spark) in the Python driver",
      cause)
}
