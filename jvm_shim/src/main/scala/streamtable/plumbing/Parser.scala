package org.apache.spark.sql.streamtable

import java.util.Locale

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.{SQLConf, VariableSubstitution}
import org.apache.spark.sql.types.{DataType, StructType}

/** What the parsers of all versions of Spark share. */
private[streamtable] abstract class ParserOfOurs(
    protected val session: SparkSession,
    protected val delegate: ParserInterface)
    extends ParserInterface {

  private val variables = new VariableSubstitution

  /** Takes a statement that opens like ours, and one with a slip in its opening that nobody else can read. */
  protected def oursOr(sql: String)(ours: => LogicalPlan)(theirs: => LogicalPlan): LogicalPlan =
    if (Openings.begin(sql)) ours
    else
      try theirs
      catch { case _: ParseException if Slips.in(sql) => ours }

  protected def statement(sql: String): LogicalPlan = {
    Guard.ofClients.foreach(new GuardedPlan(_, session).statement(sql))
    StreamTableCommand.parse(session, sql)
  }

  /**
   * With a guard, only the guard substitutes variables. Otherwise the text that it checked could differ from the text that is parsed.
   */
  protected def substituted(sql: String): String = if (Guard.always.isDefined) sql else variables.substitute(sql)

  protected def plain[T](parse: => T): T = if (Guard.always.isDefined) withoutVariables(parse) else parse

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
        oursOr(text)(unbound(substituted(text))) {
          theirs(text)(each => plain(Pins.marked(each, Scripts.parsed(each)(delegate.parsePlan))))
        })

  override def parseExpression(sql: String): Expression =
    Guard.parsed(session, sql, text => plain(Pins.marked(text, delegate.parseExpression(text))))
  override def parseTableIdentifier(sql: String): TableIdentifier = {
    val name = plain(delegate.parseTableIdentifier(sql))
    Guard.ofClients.foreach(new GuardedPlan(_, session).check(name))
    name
  }
  override def parseFunctionIdentifier(sql: String): FunctionIdentifier = {
    val name = plain(delegate.parseFunctionIdentifier(sql))
    Guard.ofClients.foreach(new GuardedPlan(_, session).check(name))
    name
  }
  override def parseMultipartIdentifier(sql: String): Seq[String] = {
    val parts = plain(delegate.parseMultipartIdentifier(sql))
    Guard.ofClients.foreach(new GuardedPlan(_, session).identifier(parts))
    parts
  }
  override def parseQuery(sql: String): LogicalPlan =
    Guard.parsed(session, sql, text => plain(Pins.marked(text, delegate.parseQuery(text))))
  override def parseRoutineParam(sql: String): StructType = plain(delegate.parseRoutineParam(sql))
  override def parseTableSchema(sql: String): StructType = plain(delegate.parseTableSchema(sql))
  override def parseDataType(sql: String): DataType = plain(delegate.parseDataType(sql))
}

/** How our statements open, compared word by word: Spark's own tokens decide what is a comment, a space or a word. */
private object Openings {

  /** What stands in front of the words for stream tables. */
  private val verbs = Seq("CREATE", "ALTER", "DROP", "REFRESH", "VERIFY", "SHOW", "SHOW CREATE", "DESCRIBE", "DESC") ++
    Seq("REFRESH ALL", "VERIFY ALL") ++
    Seq("EXPLAIN", "EXPLAIN DELTA", "EXPLAIN ALTER") ++ Seq("REPLACE", "REFRESH", "ALTER").map("CREATE OR " + _) ++
    Seq("CREATE", "CREATE OR REPLACE", "CREATE OR REFRESH").map("EXPLAIN " + _)

  /** Our words, and those of Databricks, Snowflake and Fabric, which are understood, or are told ours. */
  private val kinds = Seq("STREAM TABLE", "STREAM TABLES", "MATERIALIZED VIEW", "MATERIALIZED VIEWS") ++
    Seq(
      "DYNAMIC TABLE",
      "DYNAMIC TABLES",
      "TRANSIENT DYNAMIC TABLE",
      "DYNAMIC ICEBERG TABLE",
      "DYNAMIC ICEBERG TABLES",
      "MATERIALIZED LAKE VIEW",
      "MATERIALIZED LAKE VIEWS")

  private val others = Seq(
    "SHOW REFRESH HISTORY",
    "ALTER SCHEDULER",
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

  val openings: Seq[Seq[String]] =
    ((for (verb <- verbs; kind <- kinds) yield s"$verb $kind") ++ others).map(_.split(' ').toSeq)

  // `DECLARE c INT` and `DECLARE c CURSOR FOR SELECT ...` are Spark's.
  private val subscribes = Set("FOR SUBSCRIBE", "WITHOUT HOLD FOR SUBSCRIBE").map(_.split(' ').toSeq)

  // `DESCRIBE stream table` and `DESCRIBE stream table.x` are Spark's: a column of a table called stream.
  private val describe = Set("DESCRIBE", "DESC")
  private val endsColumn = Set("", ";", ".")

  def wordsOf(sql: String): LazyList[String] = Tokens.of(sql).map(_.getText.toUpperCase(Locale.ROOT))

  def begin(sql: String): Boolean = {
    val words = wordsOf(sql)
    openings.exists(words.startsWith(_)) && !(describe(words.head) && endsColumn(words.lift(3).getOrElse(""))) ||
    words.headOption.contains("DECLARE") && words.lift(2).contains("CURSOR") && subscribes.exists(
      words.drop(3).startsWith(_))
  }
}
