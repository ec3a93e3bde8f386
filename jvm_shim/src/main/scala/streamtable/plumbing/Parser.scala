package org.apache.spark.sql.streamtable

import java.util.Locale

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.{SQLConf, VariableSubstitution}
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** What the parsers of all versions of Spark share. */
private[streamtable] abstract class ParserOfOurs(
    protected val session: SparkSession,
    protected val delegate: ParserInterface)
    extends ParserInterface {

  private val variables = new VariableSubstitution

  protected def statement(sql: String): LogicalPlan = {
    Guard.ofClients.foreach(new GuardedPlan(_, session).statement(sql))
    StreamTableCommand.parse(session, sql)
  }

  /** The guard has put the variables in place of those whose statements it looks at, as far as they may know them. */
  protected def substituted(sql: String): String = if (Guard.ofClients.isDefined) sql else variables.substitute(sql)

  protected def plain[T](parse: => T): T = if (Guard.ofClients.isDefined) withoutVariables(parse) else parse

  protected def withoutVariables[T](parse: => T): T = {
    val conf = SQLConf.get.clone()
    conf.setConf(SQLConf.VARIABLE_SUBSTITUTE_ENABLED, false)
    SQLConf.withExistingConf(conf)(parse)
  }
}

/** Takes the statements that open like ours; everything else goes on to `delegate` as it is. */
class StreamTableParser(session: SparkSession, delegate: ParserInterface)
    extends ParserOfOurs(session, delegate)
    with ParsesParameters {

  override def parsePlan(sql: String): LogicalPlan =
    Guard.parsed(
      session,
      sql,
      text =>
        if (Openings.begin(text)) unbound(substituted(text))
        else plain(Pins.marked(text, Scripts.parsed(text)(delegate.parsePlan))))

  override def parseExpression(sql: String): Expression =
    Guard.parsed(session, sql, text => plain(Pins.marked(text, delegate.parseExpression(text))))
  override def parseTableIdentifier(sql: String): TableIdentifier = {
    val name = delegate.parseTableIdentifier(sql)
    Guard.ofClients.foreach(new GuardedPlan(_, session).check(name))
    name
  }
  override def parseFunctionIdentifier(sql: String): FunctionIdentifier = delegate.parseFunctionIdentifier(sql)
  override def parseMultipartIdentifier(sql: String): Seq[String] = {
    val parts = delegate.parseMultipartIdentifier(sql)
    Guard.ofClients.foreach(new GuardedPlan(_, session).identifier(parts))
    parts
  }
  override def parseQuery(sql: String): LogicalPlan =
    Guard.parsed(session, sql, text => plain(Pins.marked(text, delegate.parseQuery(text))))
  override def parseRoutineParam(sql: String): StructType = delegate.parseRoutineParam(sql)
  override def parseTableSchema(sql: String): StructType = delegate.parseTableSchema(sql)
  override def parseDataType(sql: String): DataType = delegate.parseDataType(sql)
}

/** How our statements open, compared word by word: Spark's own tokens decide what is a comment, a space or a word. */
private object Openings {

  /** What stands in front of the words for stream tables. */
  private val verbs = Seq("CREATE", "ALTER", "DROP", "REFRESH", "VERIFY", "SHOW", "SHOW CREATE", "DESCRIBE", "DESC") ++
    Seq("EXPLAIN", "EXPLAIN DELTA", "EXPLAIN ALTER") ++ Seq("REPLACE", "REFRESH", "ALTER").map("CREATE OR " + _) ++
    Seq("CREATE", "CREATE OR REPLACE", "CREATE OR REFRESH").map("EXPLAIN " + _)

  /** Our words, and those of Databricks, Snowflake and Fabric, which are understood, or are told ours. */
  private val kinds = Seq("STREAM TABLE", "STREAM TABLES", "MATERIALIZED VIEW", "MATERIALIZED VIEWS") ++
    Seq(
      "DYNAMIC TABLE",
      "DYNAMIC TABLES",
      "TRANSIENT DYNAMIC TABLE",
      "MATERIALIZED LAKE VIEW",
      "MATERIALIZED LAKE VIEWS")

  private val others = Seq(
    "SHOW REFRESH HISTORY",
    "SUBSCRIBE",
    "COPY ( SUBSCRIBE",
    "FETCH",
    "CLOSE",
    "CREATE QUEUE",
    "ALTER QUEUE",
    "DROP QUEUE",
    "PURGE QUEUE",
    "REGISTER CONSUMER",
    "UNREGISTER CONSUMER",
    "SHOW QUEUES",
    "SHOW CONSUMERS",
    "NEXT BATCH",
    "FINISH BATCH",
    "RETRY EVENTS",
    "GIVE UP EVENTS",
    "SHOW DEAD LETTERS",
    "REPLAY DEAD LETTERS",
    "CREATE PUBLICATION",
    "ALTER PUBLICATION",
    "DROP PUBLICATION",
    "CREATE SUBSCRIPTION",
    "ALTER SUBSCRIPTION",
    "DROP SUBSCRIPTION",
    "APPLY SUBSCRIPTION",
    "CREATE REPLICATION SLOT",
    "DROP REPLICATION SLOT")

  private val openings: Seq[Seq[String]] =
    ((for (verb <- verbs; kind <- kinds) yield s"$verb $kind") ++ others).map(_.split(' ').toSeq)

  // `DECLARE c INT` and `DECLARE c CURSOR FOR SELECT ...` are Spark's.
  private val subscribes = Set("FOR SUBSCRIBE", "WITHOUT HOLD FOR SUBSCRIBE").map(_.split(' ').toSeq)

  // `DESCRIBE stream table` and `DESCRIBE stream table.x` are Spark's: a column of a table called stream.
  private val describe = Set("DESCRIBE", "DESC")
  private val endsColumn = Set("", ";", ".")

  def begin(sql: String): Boolean = {
    val words = Tokens.of(sql).map(_.getText.toUpperCase(Locale.ROOT))
    opens(words) || opens(corrected(words)) ||
    words.headOption.contains("DECLARE") && words.lift(2).contains("CURSOR") && subscribes.exists(
      words.drop(3).startsWith(_))
  }

  private def opens(words: Seq[String]): Boolean =
    openings.exists(words.startsWith(_)) && !(describe(words.head) && endsColumn(words.lift(3).getOrElse("")))

  /** The first words with a slip in STREAM or MATERIALIZED mended, so that who made it is told: Spark would refresh a resource. */
  private def corrected(words: Seq[String]): Seq[String] = {
    val first = words.take(7)
    first.indices.drop(1).foldLeft(first) { (mended, i) =>
      meant(first.lift(i + 1)).filter(isNear(first(i), _)).fold(mended)(mended.updated(i, _))
    }
  }

  private def meant(next: Option[String]): Option[String] = next.collect {
    case "TABLE" | "TABLES" => "STREAM"
    case "VIEW" | "VIEWS" => "MATERIALIZED"
  }

  private def isNear(word: String, meant: String): Boolean =
    UTF8String.fromString(word).levenshteinDistance(UTF8String.fromString(meant)) <= 2
}
