package org.apache.spark.sql.streamtable

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.parser.{ParseException, SqlBaseLexer}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Our statements between BEGIN and END: Spark parses a script as a whole and asks no parser of ours about its statements. */
private object Scripts {

  /** Parses as `parse` does; of a script that Spark cannot parse, our statements are parsed when they are executed. */
  def parsed(sql: String)(parse: String => LogicalPlan): LogicalPlan =
    try parse(sql)
    catch { case e: ParseException => parse(immediate(sql).getOrElse(throw e)) }

  /** What may stand in front of a statement of a script. */
  private val before = Set("BEGIN", ";", "THEN", "ELSE", "DO", "LOOP", "REPEAT")

  private def opens(statement: String) = Openings.begin(statement) || Slips.in(statement)

  /** The script with each statement of ours as the string of an EXECUTE IMMEDIATE. */
  private def immediate(sql: String): Option[String] = {
    val tokens = Tokens.of(sql).toVector
    def word(i: Int) = tokens(i).getText.toUpperCase(Locale.ROOT)
    // Tokens count code points, strings count UTF-16 units.
    def place(i: Int) = sql.offsetByCodePoints(0, tokens(i).getStartIndex)
    val spans = tokens.indices.drop(1).collect {
      case i if before(word(i - 1)) && opens(sql.substring(place(i))) =>
        val end = tokens.indexWhere(_.getType == SqlBaseLexer.SEMICOLON, i)
        place(i) -> (if (end < 0) sql.length else place(end))
    }
    val script = tokens.indices.take(3).exists(word(_) == "BEGIN") // a label may come before it
    Option.when(script && spans.nonEmpty)(spans.reverse.foldLeft(sql) { case (text, (from, to)) =>
      s"${text.substring(0, from)}EXECUTE IMMEDIATE ${Literal(text.substring(from, to).trim).sql}${text.substring(to)}"
    })
  }
}
