package org.apache.spark.sql.streamtable

import java.util.{Iterator => JavaIterator, List => JavaList, Map => JavaMap}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import py4j.Py4JException

import org.apache.spark.sql.{Row, SparkSession}

/** What Python implements over py4j: all decisions are made there. Answers are JSON, an error is an answer too. */
trait Handler {

  /** Reads the statement and answers `{"schema": <StructType JSON>}`. */
  def describe(session: SparkSession, sql: String): String

  /** Carries the statement out and answers `{"rows": [[...], ...]}`, or `{"held": id}` for rows that never left the JVM. */
  def run(session: SparkSession, sql: String): String

  /**
   * Which columns of its tables a subscription means that begins now: `{"columns": "..."}`; `latest` and `batch` are told them. `place`
   * is its folder in the checkpoint.
   */
  def begun(session: SparkSession, sql: String, place: String): String

  /**
   * How far a subscription that has come to `start` (null: not begun) could go now: `{"latest": "12"}`, or null where it cannot begin.
   * With `newest`, such a time, how far its next batch goes on the way there.
   */
  def latest(session: SparkSession, sql: String, columns: String, start: String, newest: String): String

  /** What came after `start` (null: from the beginning) and up to `end`: `{"held": id}`. */
  def batch(session: SparkSession, sql: String, columns: String, start: String, end: String): String

  /** Answers the columns of a table function, as `describe` does. */
  def describeFunction(session: SparkSession, name: String, arguments: Array[String]): String

  /** Answers its rows, as `run` does. */
  def callFunction(session: SparkSession, name: String, arguments: Array[String]): String

  /**
   * Answers what a statement mentions: `{"names": [[...]], "queries": [...], ...}`, or an error for a query or a condition in it that
   * cannot be parsed.
   */
  def mentioned(session: SparkSession, sql: String): String

  /**
   * Carries out a statement of Spark, and what of stream tables that does not know, before it and after it: `{"rows": [[...], ...]}`.
   * An error speaks against the statement.
   */
  def accompany(session: SparkSession, operation: String, name: Array[String], statement: Runnable): String

  /**
   * Refreshes the stream tables IMMEDIATE above the tables at some paths, which were written, and answers which lack the write, and why:
   * `{"missed": ["...", ...]}`.
   */
  def follow(session: SparkSession, places: Array[String]): String

  /** Answers an error if `operation` is not to be done to a table because stream tables read it. */
  def checkSourceDdl(session: SparkSession, operation: String, name: String, place: String): String

  /** Answers an error if a setting of ours cannot have the value. */
  def checkSetting(key: String, value: String): String
}

/** Who answers, and the connections to there. */
private[streamtable] final case class Registered(handler: Handler, connections: Connections)

/** The registered handler, and the reading of its answers. */
object Handlers {

  private val mapper = new ObjectMapper()
  private val thrown = new ConcurrentHashMap[String, Throwable]()
  private val held = new ConcurrentHashMap[String, Object]()
  @volatile private var current: Option[Registered] = None

  /** Makes `handler`, which `callbacks` lead to, answer all statements of this JVM. */
  def set(handler: Handler, callbacks: Callbacks): Unit = current = Some(Registered(handler, callbacks.connections))

  /** Leaves the statements without an answer, or to a process of our own. */
  def unset(): Unit = current = None

  private[streamtable] def registered: Option[Registered] = current

  /** Keeps what Spark raised inside the handler, so that the error answer with this id throws it unchanged. */
  def keep(id: String, exception: Throwable): Unit = thrown.put(id, exception)

  /** Holds what the answer with this id stands for: rows or a frame. */
  def hold(id: String, result: Object): Unit = held.put(id, result)

  private def held(answer: JsonNode): Object = held.remove(answer.get("held").asText)

  /** Moves at most `count` rows; Spark computes them as they are asked for. */
  def take(rows: JavaIterator[Row], count: Int, into: JavaList[Row]): Unit =
    (0 until count).iterator.takeWhile(_ => rows.hasNext).foreach(_ => into.add(rows.next()))

  /** Asks for the result type of a statement. */
  def describe(session: SparkSession, sql: String): JsonNode =
    judged(session)(_.describe(session, sql)).get("schema")

  /** Carries a statement out: its rows as JSON, or those that are held here. */
  def run(session: SparkSession, sql: String): Either[JsonNode, JavaList[Row]] = rows(answer(_.run(session, sql)))

  private def rows(answered: JsonNode): Either[JsonNode, JavaList[Row]] =
    if (answered.has("held")) Right(held(answered).asInstanceOf[JavaList[Row]]) else Left(answered.get("rows"))

  /** Asks which columns of its tables a subscription means that begins now. */
  def begun(session: SparkSession, sql: String, place: String): String =
    answer(_.begun(session, sql, place)).get("columns").asText

  /** Asks how far a subscription could go. */
  def latest(
      session: SparkSession,
      sql: String,
      columns: String,
      start: String,
      newest: String = null): Option[String] =
    Option(answer(_.latest(session, sql, columns, start, newest)).get("latest")).filterNot(_.isNull).map(_.asText)

  /** Asks for the frame of what came between two times of a subscription. */
  def batch(session: SparkSession, sql: String, columns: String, start: String, end: String): Object =
    held(answer(_.batch(session, sql, columns, start, end)))

  /** Asks for the result type of a table function. */
  def describeFunction(session: SparkSession, name: String, arguments: Seq[String]): JsonNode =
    judged(session)(_.describeFunction(session, name, arguments.toArray)).get("schema")

  /** Calls a table function and gives its rows. */
  def callFunction(session: SparkSession, name: String, arguments: Seq[String]): Either[JsonNode, JavaList[Row]] =
    rows(answer(_.callFunction(session, name, arguments.toArray)))

  /** Asks what a statement mentions. */
  def mentioned(session: SparkSession, sql: String): JsonNode = answer(_.mentioned(session, sql))

  private[streamtable] def askedByPython: Boolean = current.exists(_.connections.ofPython)

  /** Raises what speaks against changing the shape of a table. */
  def checkSourceDdl(session: SparkSession, operation: String, name: String, place: String): Unit =
    answer(_.checkSourceDdl(session, operation, name, place))

  /** Raises what speaks against a value of a setting. */
  def checkSetting(key: String, value: String): Unit = answer(_.checkSetting(key, value))

  /** Has a statement of Spark carried out, and beside it what that does not know. */
  private[streamtable] def accompany(
      session: SparkSession,
      operation: String,
      name: Seq[String],
      statement: Runnable): JsonNode = answer(_.accompany(session, operation, name.toArray, statement)).get("rows")

  /** Has the stream tables IMMEDIATE above what was written refreshed; which lack the write, and why. */
  private[streamtable] def follow(session: SparkSession, places: Seq[String]): Seq[String] = {
    val missed = answer(_.follow(session, places.toArray)).get("missed")
    (0 until missed.size).map(missed.get(_).asText)
  }

  /** Answers what begins a statement, where the settings of its session are good. */
  private def judged(session: SparkSession)(ask: Handler => String): JsonNode = {
    if (current.isEmpty) PythonChild.registered()
    CheckedSettings.judgeGiven(session)
    answer(ask)
  }

  private def answer(ask: Handler => String): JsonNode = {
    val registered = current.getOrElse(PythonChild.registered())
    val text =
      try Guard.own(ask(registered.handler))
      catch {
        case e: Py4JException =>
          throw notEnabled(
            "the Python process did not answer",
            "try again; a process that ended is started anew",
            Some(e))
      } finally registered.connections.tidy()
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
        mapper.convertValue(error.get("parameters"), classOf[JavaMap[String, String]]).asScala.toMap + ("id" -> id)))
  }

  private[streamtable] def notEnabled(reason: String, hint: String, cause: Option[Throwable]) =
    StreamTableException("STREAMTABLE_NOT_ENABLED", "55000", reason, hint, cause)
}
