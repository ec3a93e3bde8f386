package org.apache.spark.sql.streamtable

import scala.util.Try

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.internal.SQLConf

/**
 * The text of a query, read by the rule `singleQuery` of Spark's grammar. This rule has no place for a statement: no command, no
 * INSERT behind a WITH or a FROM, no script. `spark.sql` reads a statement and carries a command out before it returns.
 */
object Queries {

  /** What `text` is as a query, analysed and not run. */
  def planned(spark: SparkSession, text: String): Object = {
    val session = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession]
    try Dataset.ofRows(session, parsed(spark, text))
    catch {
      case _: StackOverflowError =>
        throw refused(
          "the query is nested too deeply for the stack of Spark's JVM",
          "write it less deep, or start the JVM with a larger stack: spark.driver.extraJavaOptions=-Xss16m")
    }
  }

  /** What `text` is as a query, before its names are looked up. Raises what Spark says of it, or that it is a statement. */
  def parsed(spark: SparkSession, text: String): LogicalPlan =
    spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].withActive {
      val parser = spark.sessionState.sqlParser
      try toItsEnd(parser.parseQuery(text))
      catch {
        case _: ParseException if Openings.begin(text) || Try(parser.parsePlan(text)).isSuccess => throw statement(text)
      }
    }

  /** Raises an error for a text that is no query. It is read by that rule alone: a statement in it is neither parsed nor looked into. */
  def readable(spark: SparkSession, text: String): Unit =
    spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].withActive {
      try toItsEnd(spark.sessionState.sqlParser.parseQuery(text))
      catch { case _: ParseException if Openings.begin(text) => throw statement(text) }
    }

  /** A setting of older Sparks lets the parser pass over what stands behind a query. */
  private def toItsEnd[T](parse: => T): T =
    if (SQLConf.get.getConf(SQLConf.LEGACY_PARSE_QUERY_WITHOUT_EOF)) {
      val strict = SQLConf.get.clone()
      strict.setConf(SQLConf.LEGACY_PARSE_QUERY_WITHOUT_EOF, false)
      SQLConf.withExistingConf(strict)(parse)
    } else parse

  private def statement(text: String) = refused(
    s"the text is a statement (${Tokens.of(text).head.getText.toUpperCase} ...) in the place of a query; it was not run",
    "write SELECT, WITH ... SELECT, FROM ... SELECT, VALUES or TABLE; what is to be run is a statement by itself")

  /** The refusal of a query that hands rows to a program. */
  private[streamtable] def runs(program: String) = refused(
    s"TRANSFORM runs '$program' outside Spark, and its output cannot be recomputed reliably",
    "compute with SQL, or write the program's answer into a table and query that")

  /** The refusal of a query that Spark analyses and cannot run. */
  private[streamtable] def recursive = refused(
    s"Spark ${Versions.spark} cannot run recursive queries (WITH RECURSIVE)",
    "take Spark 4.1 or a later one for it")

  /** The refusal of `_metadata` of a Delta table: OPTIMIZE gives rows other files without a change that anybody is told of. */
  private[streamtable] def readsMetadata(table: String) = refused(
    s"the query reads _metadata of $table, which changes when the table is compacted, and no row with it",
    "keep what it is needed for in a column of the table, and read that")

  private def refused(reason: String, hint: String) =
    StreamTableException("STREAMTABLE_INVALID_QUERY", "42000", reason, hint)
}
