package org.apache.spark.sql.streamtable

import java.util.Locale

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.internal.{SQLConf, VariableSubstitution}
import org.apache.spark.sql.types.{DataType, StructType}

/** Takes the statements that open like ours; everything else goes on to `delegate` as it is. */
class StreamTableParser(session: SparkSession, delegate: ParserInterface) extends ParserInterface {

  private val variables = new VariableSubstitution

  override def parsePlan(sql: String): LogicalPlan =
    if (Openings.begin(sql)) StreamTableCommand.parse(session, variables.substitute(sql))
    else Pins.marked(sql, Scripts.parsed(sql)(delegate.parsePlan))

  override def parsePlanWithParameters(sql: String, context: ParameterContext): LogicalPlan =
    if (Openings.begin(sql))
      StreamTableCommand.parse(session, Parameters.inOurs(variables.substitute(sql), context))
    else if (Parameters.isEmpty(context) || SQLConf.get.legacyParameterSubstitutionConstantsOnly)
      Pins.marked(sql, Scripts.parsed(sql)(delegate.parsePlanWithParameters(_, context)))
    else parseSubstituted(variables.substitute(sql), context)

  // Delta's parser drops the parameters (delta#7640), so that they must be in the text before it is asked. Spark
  // substitutes ${variables} first and parameters second: again, the delegate would expand a ${...} in a value.
  private def parseSubstituted(sql: String, context: ParameterContext): LogicalPlan = {
    val (text, positions) = Parameters.inTheirs(sql, context)
    val origin = CurrentOrigin.get.copy(
      sqlText = Some(text),
      startIndex = Some(0),
      stopIndex = Some(text.length - 1),
      positionMapper = Some(positions))
    val withoutVariables = SQLConf.get.clone()
    withoutVariables.setConf(SQLConf.VARIABLE_SUBSTITUTE_ENABLED, false)
    SQLConf.withExistingConf(withoutVariables) {
      CurrentOrigin.withOrigin(origin)(delegate.parsePlan(text))
    }
  }

  override def parseExpression(sql: String): Expression =
    Pins.marked(sql, delegate.parseExpression(sql))
  override def parseTableIdentifier(sql: String): TableIdentifier = delegate.parseTableIdentifier(sql)
  override def parseFunctionIdentifier(sql: String): FunctionIdentifier = delegate.parseFunctionIdentifier(sql)
  override def parseMultipartIdentifier(sql: String): Seq[String] = delegate.parseMultipartIdentifier(sql)
  override def parseQuery(sql: String): LogicalPlan = Pins.marked(sql, delegate.parseQuery(sql))
  override def parseRoutineParam(sql: String): StructType = delegate.parseRoutineParam(sql)
  override def parseTableSchema(sql: String): StructType = delegate.parseTableSchema(sql)
  override def parseDataType(sql: String): DataType = delegate.parseDataType(sql)
}

/** How our statements open, compared word by word: Spark's own tokens decide what is a comment, a space or a word. */
private object Openings {

  private val openings: Seq[Seq[String]] = Seq(
    "CREATE STREAM TABLE",
    "CREATE OR REPLACE STREAM TABLE",
    "ALTER STREAM TABLE",
    "DROP STREAM TABLE",
    "REFRESH STREAM TABLE",
    "VERIFY STREAM TABLE",
    "SHOW STREAM TABLES",
    "SHOW STREAM TABLE DEPENDENCIES",
    "SHOW CREATE STREAM TABLE",
    "SHOW REFRESH HISTORY",
    "DESCRIBE STREAM TABLE",
    "DESC STREAM TABLE",
    "EXPLAIN STREAM TABLE",
    "EXPLAIN DELTA STREAM TABLE",
    "EXPLAIN CREATE STREAM TABLE",
    "EXPLAIN CREATE OR REPLACE STREAM TABLE",
    "EXPLAIN ALTER STREAM TABLE",
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
    "DROP REPLICATION SLOT").map(_.split(' ').toSeq)

  // `DECLARE c INT` and `DECLARE c CURSOR FOR SELECT ...` are Spark's.
  private val subscribes = Set("FOR SUBSCRIBE", "WITHOUT HOLD FOR SUBSCRIBE").map(_.split(' ').toSeq)

  // `DESCRIBE stream table` and `DESCRIBE stream table.x` are Spark's: a column of a table called stream.
  private val describe = Set("DESCRIBE", "DESC")
  private val endsColumn = Set("", ";", ".")

  def begin(sql: String): Boolean = {
    val words = Tokens.of(sql).map(_.getText.toUpperCase(Locale.ROOT))
    openings.exists(words.startsWith(_)) && !(describe(words.head) && endsColumn(words.lift(3).getOrElse(""))) ||
    words.headOption.contains("DECLARE") && words.lift(2).contains("CURSOR") && subscribes.exists(
      words.drop(3).startsWith(_))
  }
}
