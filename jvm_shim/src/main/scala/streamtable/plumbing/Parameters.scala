package org.apache.spark.sql.streamtable

import io.delta.sql.parser.UpperCaseCharStream
import org.antlr.v4.runtime.{CharStreams, Token}

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser._

/** Spark's own tokens of a text, read as far as asked for; spaces and comments are left out. */
private object Tokens {

  def of(sql: String): LazyList[Token] = {
    val lexer = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(sql)))
    lexer.removeErrorListeners()
    LazyList
      .continually(lexer.nextToken())
      .takeWhile(_.getType != Token.EOF)
      .filter(_.getChannel == Token.DEFAULT_CHANNEL)
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
    val found = markers(Tokens.of(sql).toVector)
    val questions = found.filter(_.name.isEmpty).zipWithIndex.toMap
    val substitutions = for {
      marker <- found
      value <- if (marker.name.isEmpty) positional(context).lift(questions(marker)) else named(context).get(marker.name)
    } yield Substitution(marker.location, literal(value))
    val text = substitutions.reverse.foldLeft(sql) { (text, s) =>
      // Tokens count code points, strings count UTF-16 units.
      val from = text.offsetByCodePoints(0, s.start)
      text.substring(0, from) + s.replacement + text.substring(text.offsetByCodePoints(from, s.end - s.start))
    }
    (text, PositionMapper(sql, text, substitutions.toList))
  }

  /** A place where a value goes; the name of a positional one is empty. */
  private case class Marker(name: String, location: ParameterLocation)

  private def markers(tokens: Vector[Token]): Seq[Marker] = tokens.indices.flatMap { i =>
    val token = tokens(i)
    def adjoins(left: Int) = tokens.isDefinedAt(left) && tokens.isDefinedAt(left + 1) &&
      tokens(left).getStopIndex + 1 == tokens(left + 1).getStartIndex
    token.getType match {
      case SqlBaseLexer.QUESTION => Some(Marker("", ParameterLocation(token.getStartIndex, token.getStopIndex + 1)))
      // `v:field` reads a field of a variant; a parameter stands after a space or an operator.
      case SqlBaseLexer.COLON if adjoins(i) && isWord(tokens(i + 1)) && !(adjoins(i - 1) && endsValue(tokens(i - 1))) =>
        Some(Marker(tokens(i + 1).getText, ParameterLocation(token.getStartIndex, tokens(i + 1).getStopIndex + 1)))
      case _ => None
    }
  }

  private def isWord(token: Token) = Character.isUnicodeIdentifierStart(token.getText.head) || token.getText.head == '_'

  private def endsValue(token: Token) = {
    val last = token.getText.last
    Character.isUnicodeIdentifierPart(last) || ")]`'\"".contains(last)
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
