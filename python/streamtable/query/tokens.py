"""The tokens of a query's text, as sqlglot splits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark

from streamtable.language.comments import pieces

__all__ = ["NEGATED", "Text"]

NEGATED = {"=": "<>", "==": "<>", "<>": "=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The comparisons, each with its negation."""

_OPENS_QUERY = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.FROM, TokenType.TABLE)
"""Words that open a query."""

_GOES_ON = (TokenType.R_PAREN, TokenType.L_BRACKET, TokenType.DOT)
"""What follows a column that is called as such a word."""

_OPENS_OPERAND = {
    *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.WHERE, TokenType.ON, TokenType.HAVING, TokenType.QUALIFY),
    *(TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL, TokenType.COMMA),
    *(TokenType.ARROW, TokenType.FARROW, TokenType.CASE, TokenType.EQ, TokenType.NEQ, TokenType.HINT, TokenType.FROM),
    *(TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.PARTITION_BY),
    *(TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY),
}
"""Words that may stand in front of the left operand of a comparison; so may the word that opens a step of a pipe."""

_ENDS_NOTHING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.ALIAS, TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE)
"""Other tokens behind which an operand begins or a name stands, so that END is a name there."""


@dataclass(frozen=True)
class Text:
    """A query and its tokens. Quoted names and strings are single tokens, so their contents are not words.

    Words that are names, as in `t.end`, are tokens of names.
    """

    sql: str
    tokens: Sequence[Token]

    @classmethod
    def of(cls, sql: str) -> Text:
        return cls(sql, _with_names(Spark().tokenize(_without_comments(sql))))

    def word(self, at: int) -> str:
        """Return the token as an upper-case word; an empty text for quoted text and beyond both ends."""
        if not 0 <= at < len(self.tokens) or self.tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return self.tokens[at].text.upper()

    def is_(self, at: int, *kinds: TokenType) -> bool:
        return 0 <= at < len(self.tokens) and self.tokens[at].token_type in kinds

    def opens_query(self, at: int) -> bool:
        """Tell whether a query begins at the token; a column may be called `values`."""
        return self.is_(at, *_OPENS_QUERY) and not self.is_(at + 1, *_GOES_ON)

    def between(self, first: int, last: int) -> str:
        """Return the text from one token to another, both included."""
        return self.sql[self.tokens[first].start : self.tokens[last].end + 1] if first <= last else ""

    def replaced(self, first: int, last: int, by: str) -> str:
        return self.sql[: self.tokens[first].start] + by + self.sql[self.tokens[last].end + 1 :]

    def closing(self, opening: int) -> int | None:
        """Return the parenthesis or bracket that closes the one at `opening`."""
        depth = 0
        for at in range(opening, len(self.tokens)):
            depth += self.is_(at, TokenType.L_PAREN, TokenType.L_BRACKET) - self.is_(at, TokenType.R_PAREN, TokenType.R_BRACKET)
            if depth == 0:
                return at
        return None

    def operand_before(self, at: int) -> int:
        """Return the first token of the operand that ends in front of `at`."""
        depth, first = 0, at
        while first > 0:
            before = first - 1
            closes = self.is_(before, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END)
            opens = self.is_(before, TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE)
            piped = self.is_(before - 1, TokenType.PIPE_GT)
            if depth == 0 and (opens or piped or self.tokens[before].token_type in _OPENS_OPERAND):
                break
            depth += closes - opens
            first = before
        return first


def _without_comments(sql: str) -> str:
    """Return the text with spaces for its comments, as Spark reads them: a backslash continues one on the next line."""
    if "--" not in sql and "/*" not in sql:
        return sql
    found = pieces(sql, strict=False)
    return "".join(" " * (end - start) if kind in ("line", "block") else sql[start:end] for kind, start, end in found)


def _with_names(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens, with keywords behind a dot as names, and so END where no CASE is open or an operand begins."""
    found: list[Token] = []
    cases = [0]  # that are open, by level of parentheses
    for token in tokens:
        kind, before = token.token_type, found[-1].token_type if found else TokenType.COMMA
        closes = kind == TokenType.END and cases[-1] > 0 and before not in _OPENS_OPERAND and before not in _ENDS_NOTHING
        word = kind not in (TokenType.STRING, TokenType.IDENTIFIER) and token.text.isidentifier()
        named = word and (before == TokenType.DOT or (kind == TokenType.END and not closes))
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET):
            cases.append(0)
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET):
            cases = cases[:-1] or [0]
        elif not named:
            cases[-1] += (kind == TokenType.CASE) - closes
        found.append(_name(token) if named else token)
    return found


def _name(token: Token) -> Token:
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments)
