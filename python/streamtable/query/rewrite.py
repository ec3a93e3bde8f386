"""Rewriting: forms of standard SQL and PostgreSQL that Spark does not parse become Spark's forms. All other text stays as it is.

sqlglot only splits the text into tokens; Spark alone reads the query. The passes, in order, are `PASSES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark import __version__ as spark_version
from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from streamtable.jvm.versions import is_since

__all__ = ["HAS_QUALIFY", "PASSES", "moving_literal", "rewritten"]

HAS_QUALIFY = is_since(spark_version, "4.2")
"""Whether Spark knows the clause that DISTINCT ON becomes."""

_CANDIDATE = re.compile(r"\b(?:ALL|ANY|SOME|STRING_AGG|LISTAGG)\s*\(|\bDISTINCT\s+ON\b|\bFETCH\s+(?:FIRST|NEXT)\b", re.IGNORECASE)

_MOMENTS = ("now", "today", "tomorrow", "yesterday")
_TIME_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_MOVING = re.compile(rf"'\s*(?:{'|'.join(_MOMENTS)})\s*'", re.IGNORECASE)

_NEGATED = {"=": "<>", "==": "<>", "<>": "=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

_QUERY = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.FROM, TokenType.TABLE)

_OPENS_OPERAND = {
    *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.WHERE, TokenType.ON, TokenType.HAVING, TokenType.QUALIFY),
    *(TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL, TokenType.COMMA),
    *(TokenType.ARROW, TokenType.CASE, TokenType.EQ, TokenType.NEQ, TokenType.PIPE_GT),
}
"""Words that may stand in front of the left operand of a comparison."""

_ENDS_SELECT = {
    *(TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY, TokenType.LIMIT, TokenType.OFFSET),
    *(TokenType.FETCH, TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT, TokenType.R_PAREN, TokenType.PIPE_GT),
}


@dataclass(frozen=True)
class _Text:
    """A query and its tokens. Quoted names and strings are single tokens, so their contents are not words."""

    sql: str
    tokens: Sequence[Token]

    @classmethod
    def of(cls, sql: str) -> _Text:
        return cls(sql, Spark().tokenize(sql))

    def word(self, at: int) -> str:
        """Return the token as an upper-case word; an empty text for quoted text and beyond both ends."""
        if not 0 <= at < len(self.tokens) or self.tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return self.tokens[at].text.upper()

    def is_(self, at: int, *kinds: TokenType) -> bool:
        return 0 <= at < len(self.tokens) and self.tokens[at].token_type in kinds

    def between(self, first: int, last: int) -> str:
        """Return the text from one token to another, both included."""
        return self.sql[self.tokens[first].start : self.tokens[last].end + 1] if first <= last else ""

    def replaced(self, first: int, last: int, by: str) -> str:
        return self.sql[: self.tokens[first].start] + by + self.sql[self.tokens[last].end + 1 :]

    def closing(self, opening: int) -> int | None:
        """Return the parenthesis that closes the one at `opening`."""
        depth = 0
        for at in range(opening, len(self.tokens)):
            depth += self.is_(at, TokenType.L_PAREN) - self.is_(at, TokenType.R_PAREN)
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
            if depth == 0 and (opens or self.tokens[before].token_type in _OPENS_OPERAND):
                break
            depth += closes - opens
            first = before
        return first


def rewritten(sql: str) -> str:
    """Return the query in Spark's forms. Spark reports its errors."""
    if not _CANDIDATE.search(sql):
        return sql
    try:
        for apply in PASSES:
            sql = _until_nothing_is_left(apply, sql)
    except TokenError:
        pass  # no query; Spark has the better message
    return sql


def moving_literal(sql: str) -> str | None:
    """Return a literal such as DATE 'today', whose value depends on the day on which Spark reads the text."""
    if not _MOVING.search(sql):
        return None
    try:
        text = _Text.of(sql)
    except TokenError:
        return None
    for at in range(1, len(text.tokens)):
        if text.is_(at, TokenType.STRING) and text.tokens[at].text.strip().lower() in _MOMENTS and text.word(at - 1) in _TIME_TYPES:
            return text.between(at - 1, at)
    return None


def _until_nothing_is_left(apply: Callable[[_Text], str | None], sql: str) -> str:
    while (changed := apply(_Text.of(sql))) is not None:
        sql = changed
    return sql


def quantified_comparison(text: _Text) -> str | None:
    """Rewrite the innermost `x > ALL (query)`, `x = ANY (query)`, or SOME.

    `= ANY` is IN, `<> ALL` is NOT IN. The other forms compare with the least and the greatest value. If these do not decide, a NULL
    among the values makes the answer unknown. ANY is the negation of ALL with the negated comparison.
    """
    for at in reversed(range(1, len(text.tokens) - 2)):
        quantifier, operator = text.word(at), text.word(at - 1)
        if quantifier not in ("ALL", "ANY", "SOME") or operator not in _NEGATED:
            continue
        closed = text.closing(at + 1) if text.is_(at + 1, TokenType.L_PAREN) and text.is_(at + 2, *_QUERY) else None
        if closed is None:
            continue
        first, query = text.operand_before(at - 1), text.between(at + 2, closed - 1)
        operand = text.between(first, at - 2)
        some = quantifier != "ALL"
        if (operator if some else _NEGATED[operator]) in ("=", "=="):
            return text.replaced(first, closed, f"({operand} {'IN' if some else 'NOT IN'} ({query}))")
        every = _all(operand, _NEGATED[operator] if some else operator, query)
        return text.replaced(first, closed, f"(NOT {every})" if some else every)
    return None


def _all(operand: str, operator: str, query: str) -> str:
    def of(value: str) -> str:
        return f"(SELECT {value} FROM ({query}) AS __all(__value))"  # noqa: S608 - the user's own text, in the user's own query

    fails = [f"({operand}) {_NEGATED[operator]} {of(extreme)}" for extreme in _extremes(operator)]
    return (
        f"(CASE WHEN {of('count(*)')} = 0 THEN TRUE WHEN {' OR '.join(fails)} THEN FALSE "
        f"WHEN ({operand}) IS NULL OR {of('count_if(__value IS NULL)')} > 0 THEN NULL ELSE TRUE END)"
    )


def _extremes(operator: str) -> tuple[str, ...]:
    """Return the values of a set that decide whether a comparison holds for all of it."""
    if operator in ("=", "=="):
        return "min(__value)", "max(__value)"
    return ("max(__value)",) if operator in (">", ">=") else ("min(__value)",)


def distinct_on(text: _Text) -> str | None:
    """Rewrite `SELECT DISTINCT ON (keys) ... ORDER BY order`: it keeps the first of the rows with equal keys."""
    for at in range(len(text.tokens) - 2):
        if not text.is_(at, TokenType.DISTINCT) or text.word(at + 1) != "ON" or not text.is_(at + 2, TokenType.L_PAREN):
            continue
        closed = text.closing(at + 2)
        if closed is None:
            continue
        end = _end_of_select(text, closed + 1)
        keys, order = text.between(at + 3, closed - 1), _order(text, end)
        first = f" QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order or keys}) = 1 "
        stop = text.tokens[end].start if end < len(text.tokens) else len(text.sql)
        head, body = text.sql[: text.tokens[at].start], text.sql[text.tokens[closed].end + 1 : stop]
        return head + body.strip() + first + text.sql[stop:]
    return None


def _end_of_select(text: _Text, at: int) -> int:
    """Return the token behind the clauses of a SELECT, from its list up to QUALIFY."""
    depth = 0
    while at < len(text.tokens) and not (depth == 0 and text.tokens[at].token_type in _ENDS_SELECT):
        depth += text.is_(at, TokenType.L_PAREN) - text.is_(at, TokenType.R_PAREN)
        at += 1
    return at


def _order(text: _Text, at: int) -> str:
    if not text.is_(at, TokenType.ORDER_BY):
        return ""
    return text.between(at + 1, _end_of_select(text, at + 1) - 1)


def fetch_first(text: _Text) -> str | None:
    """Rewrite `[OFFSET m ROWS] FETCH FIRST n ROWS ONLY` to LIMIT n OFFSET m."""
    for at in range(len(text.tokens) - 3):
        if text.word(at) != "FETCH" or text.word(at + 1) not in ("FIRST", "NEXT"):
            continue
        counted = text.is_(at + 2, TokenType.NUMBER)
        rows = at + 2 + counted
        if text.word(rows) not in ("ROW", "ROWS") or text.word(rows + 1) != "ONLY":
            continue
        limit = f"LIMIT {text.between(at + 2, at + 2) if counted else '1'}"
        skips = text.word(at - 1) in ("ROW", "ROWS") and text.word(at - 3) == "OFFSET"
        if skips:
            return text.replaced(at - 3, rows + 1, f"{limit} OFFSET {text.between(at - 2, at - 2)}")
        return text.replaced(at, rows + 1, limit)
    return None


def ordered_list(text: _Text) -> str | None:
    """Rewrite `string_agg(x, ',' ORDER BY y)` to string_agg(x, ',') WITHIN GROUP (ORDER BY y)."""
    for at in range(len(text.tokens) - 2):
        if text.word(at) not in ("STRING_AGG", "LISTAGG") or not text.is_(at + 1, TokenType.L_PAREN):
            continue
        closed = text.closing(at + 1)
        order = closed and _order_inside(text, at + 2, closed)
        if closed and order:
            call = f"{text.between(at, order - 1)}) WITHIN GROUP ({text.between(order, closed - 1)})"
            return text.replaced(at, closed, call)
    return None


def _order_inside(text: _Text, first: int, closed: int) -> int | None:
    """Return the ORDER BY of the call itself, not of a call or query inside it."""
    depth = 0
    for at in range(first, closed):
        depth += text.is_(at, TokenType.L_PAREN) - text.is_(at, TokenType.R_PAREN)
        if depth == 0 and text.is_(at, TokenType.ORDER_BY):
            return at
    return None


PASSES: tuple[Callable[[_Text], str | None], ...] = (
    quantified_comparison,
    *((distinct_on,) if HAS_QUALIFY else ()),
    fetch_first,
    ordered_list,
)
