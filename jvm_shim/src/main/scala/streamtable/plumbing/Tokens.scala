package org.apache.spark.sql.streamtable

import io.delta.sql.parser.UpperCaseCharStream
import org.antlr.v4.runtime.{CharStreams, Token}

import org.apache.spark.sql.catalyst.parser.SqlBaseLexer

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

/** A place of a text where the value of `:name` or `?` goes, in code points; the name of a positional one is empty. */
private case class Marker(name: String, from: Int, to: Int)

private object Markers {

  def in(sql: String): Seq[Marker] = in(Tokens.of(sql).toVector)

  private def in(tokens: Vector[Token]): Seq[Marker] = tokens.indices.flatMap { i =>
    val token = tokens(i)
    def adjoins(left: Int) = tokens.isDefinedAt(left) && tokens.isDefinedAt(left + 1) &&
      tokens(left).getStopIndex + 1 == tokens(left + 1).getStartIndex
    token.getType match {
      case SqlBaseLexer.QUESTION => Some(Marker("", token.getStartIndex, token.getStopIndex + 1))
      // `v:field` reads a field of a variant; a parameter stands after a space or an operator.
      case SqlBaseLexer.COLON if adjoins(i) && isWord(tokens(i + 1)) && !(adjoins(i - 1) && endsValue(tokens(i - 1))) =>
        Some(Marker(tokens(i + 1).getText, token.getStartIndex, tokens(i + 1).getStopIndex + 1))
      case _ => None
    }
  }

  /** The text with values in place of its markers. */
  def filled(sql: String, values: Seq[(Marker, String)]): String = values.reverse.foldLeft(sql) {
    case (text, (marker, value)) =>
      // Tokens count code points, strings count UTF-16 units.
      val from = text.offsetByCodePoints(0, marker.from)
      text.substring(0, from) + value + text.substring(text.offsetByCodePoints(from, marker.to - marker.from))
  }

  private def isWord(token: Token) = Character.isUnicodeIdentifierStart(token.getText.head) || token.getText.head == '_'

  private def endsValue(token: Token) = {
    val last = token.getText.last
    Character.isUnicodeIdentifierPart(last) || ")]`'\"".contains(last)
  }
}
