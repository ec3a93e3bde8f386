package org.apache.spark.sql.streamtable

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.internal.SQLConf

/** Spark hands the values of `:name` and `?` to the parser. */
private[streamtable] trait ParsesParameters extends ParserOfOurs {

  /** A statement of ours to which no values were given. */
  protected def unbound(sql: String): LogicalPlan = statement(sql)

  /** A statement of Spark or Delta to which no values were given. */
  protected def theirs(sql: String)(parse: String => LogicalPlan): LogicalPlan = parse(sql)

  override def parsePlanWithParameters(sql: String, context: ParameterContext): LogicalPlan =
    Guard.parsed(session, sql, planWithParameters(_, context))

  private def planWithParameters(sql: String, context: ParameterContext): LogicalPlan =
    oursOr(sql)(statement(Parameters.inOurs(substituted(sql), context))) {
      if (Parameters.isEmpty(context) || SQLConf.get.legacyParameterSubstitutionConstantsOnly)
        plain(Pins.marked(sql, Scripts.parsed(sql)(delegate.parsePlanWithParameters(_, context))))
      else parseSubstituted(substituted(sql), context)
    }

  // Delta's parser drops the parameters (delta#7640), so that they must be in the text before it is asked. Spark
  // substitutes ${variables} first and parameters second: again, the delegate would expand a ${...} in a value.
  private def parseSubstituted(sql: String, context: ParameterContext): LogicalPlan = {
    val (text, positions) = Parameters.inTheirs(sql, context)
    val origin = CurrentOrigin.get.copy(
      sqlText = Some(text),
      startIndex = Some(0),
      stopIndex = Some(text.length - 1),
      positionMapper = Some(positions))
    withoutVariables(CurrentOrigin.withOrigin(origin)(delegate.parsePlan(text)))
  }
}

/** Writes the values of `:name` and `?` into the text of a statement. */
private object Parameters {

  def isEmpty(context: ParameterContext): Boolean = context match {
    case NamedParameterContext(params) => params.isEmpty
    case PositionalParameterContext(params) => params.isEmpty
    case HybridParameterContext(args, _) => args.isEmpty
  }

  /** For a statement of Spark or Delta: as Spark itself does it; by tokens where only Delta can parse the statement. */
  def inTheirs(sql: String, context: ParameterContext): (String, PositionMapper) =
    try ParameterHandler.substituteParameters(sql, context)
    catch { case _: ParseException => byTokens(sql, context) }

  /** For a statement of ours, which Spark cannot parse. */
  def inOurs(sql: String, context: ParameterContext): String = context match {
    case _ if isEmpty(context) => sql
    // Spark 4.2.0 takes them out of a map, from five on in the order of hash codes: they would get each other's values.
    case PositionalParameterContext(params) if params.size > 4 =>
      throw StreamTableException(
        "STREAMTABLE_INVALID_STATEMENT",
        "42000",
        s"${params.size} positional parameters: Spark mixes up more than four of them.",
        "name them (:a, :b) and give the values by name")
    case _ => byTokens(sql, context)._1
  }

  // A marker without a value stays in the text: whoever parses it says so better than we could.
  private def byTokens(sql: String, context: ParameterContext): (String, PositionMapper) = {
    val found = Markers.in(sql)
    val questions = found.filter(_.name.isEmpty).zipWithIndex.toMap
    val values = for {
      marker <- found
      value <- if (marker.name.isEmpty) positional(context).lift(questions(marker)) else named(context).get(marker.name)
    } yield marker -> literal(value)
    val text = Markers.filled(sql, values)
    val substitutions = values.map { case (marker, value) =>
      Substitution(ParameterLocation(marker.from, marker.to), value)
    }
    (text, PositionMapper(sql, text, substitutions.toList))
  }

  private def positional(context: ParameterContext): Seq[Expression] = context match {
    case NamedParameterContext(_) => Nil
    case PositionalParameterContext(params) => params
    case HybridParameterContext(args, _) => args
  }

  private def named(context: ParameterContext): Map[String, Expression] = context match {
    case NamedParameterContext(params) => params
    case PositionalParameterContext(_) => Map.empty
    case HybridParameterContext(args, names) => names.zip(args).toMap
  }

  // Spark's printing of a value (collations, NULLs, nested types) is private, so that it is asked for by a query.
  private def literal(value: Expression): String =
    ParameterHandler.substitutePositionalParameters("SELECT ?", Seq(value))._1.stripPrefix("SELECT ")
}
