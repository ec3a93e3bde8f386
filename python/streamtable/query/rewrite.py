"""Rewriting: forms of standard SQL and PostgreSQL that Spark does not parse become Spark's forms. All other text stays as it is.

sqlglot only splits the text into tokens; Spark alone reads the query. The passes, in order, are `PASSES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark import __version__ as spark_version
from sqlglot import TokenType
from sqlglot.errors import TokenError

from streamtable.jvm.versions import is_since
from streamtable.query.elements import compared_elements
from streamtable.query.similar import similar_to
from streamtable.query.tokens import NEGATED, Text

__all__ = ["HAS_QUALIFY", "PASSES", "moving_literal", "rewritten"]

HAS_QUALIFY = is_since(spark_version, "4.2")
"""Whether Spark knows the clause that DISTINCT ON becomes."""

_CANDIDATE = re.compile(
    r"\b(?:ALL|ANY|SOME|STRING_AGG|LISTAGG)\s*\(|\bDISTINCT\s+ON\b|\bFETCH\s+(?:FIRST|NEXT)\b|\bSIMILAR\s+TO\b", re.IGNORECASE
)

_MOMENTS = ("now", "today", "tomorrow", "yesterday")
_TIME_TYPES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ")
_MOMENT = re.compile(rf"\s*(?:{'|'.join(_MOMENTS)})\b", re.IGNORECASE)  # a time zone may follow
_MOVING = re.compile(rf"""['"]{_MOMENT.pattern}""", re.IGNORECASE)
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)

_ENDS_SELECT = {
    *(TokenType.ORDER_BY, TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY, TokenType.LIMIT, TokenType.OFFSET),
    *(TokenType.FETCH, TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT, TokenType.R_PAREN, TokenType.PIPE_GT),
}


def rewritten(sql: str) -> str:
    """Return a query or a condition in Spark's forms. Spark reports its errors."""
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
        text = Text.of(sql)
    except TokenError:
        return None
    for at in range(1, len(text.tokens)):
        if text.is_(at, *_TEXTS) and _MOMENT.match(text.tokens[at].text) and text.word(at - 1) in _TIME_TYPES:
            return text.between(at - 1, at)
    return None


def _until_nothing_is_left(apply: Callable[[Text], str | None], sql: str) -> str:
    while (changed := apply(Text.of(sql))) is not None:
        sql = changed
    return sql


def quantified_comparison(text: Text) -> str | None:
    """Rewrite the innermost `x > ALL (query)`, `x = ANY (query)`, or SOME.

    `= ANY` is IN, `<> ALL` is NOT IN. The other forms compare with the least and the greatest value. If these do not decide, a NULL
    among the values makes the answer unknown. ANY is the negation of ALL with the negated comparison.
    """
    for at in reversed(range(1, len(text.tokens) - 2)):
        quantifier, operator = text.word(at), text.word(at - 1)
        if quantifier not in ("ALL", "ANY", "SOME") or operator not in NEGATED:
            continue
        closed = text.closing(at + 1) if text.is_(at + 1, TokenType.L_PAREN) and text.opens_query(at + 2) else None
        if closed is None:
            continue
        first, query = text.operand_before(at - 1), text.between(at + 2, closed - 1)
        operand = text.between(first, at - 2)
        some = quantifier != "ALL"
        if (operator if some else NEGATED[operator]) in ("=", "=="):
            return text.replaced(first, closed, f"({operand} {'IN' if some else 'NOT IN'} ({query}))")
        every = _all(operand, NEGATED[operator] if some else operator, query)
        return text.replaced(first, closed, f"(NOT {every})" if some else every)
    return None


def _all(operand: str, operator: str, query: str) -> str:
    def of(value: str) -> str:
        return f"(SELECT {value} FROM ({query}) AS __all(__value))"  # noqa: S608 - the user's own text, in the user's own query

    fails = [f"({operand}) {NEGATED[operator]} {of(extreme)}" for extreme in _extremes(operator)]
    return (
        f"(CASE WHEN {of('count(*)')} = 0 THEN TRUE WHEN {' OR '.join(fails)} THEN FALSE "
        f"WHEN ({operand}) IS NULL OR {of('count_if(__value IS NULL)')} > 0 THEN NULL ELSE TRUE END)"
    )


def _extremes(operator: str) -> tuple[str, ...]:
    """Return the values of a set that decide whether a comparison holds for all of it."""
    if operator in ("=", "=="):
        return "min(__value)", "max(__value)"
    return ("max(__value)",) if operator in (">", ">=") else ("min(__value)",)


def distinct_on(text: Text) -> str | None:
    """Rewrite `SELECT DISTINCT ON (keys) ... ORDER BY order`: it keeps the first of the rows with equal keys."""
    for at in range(len(text.tokens) - 2):
        if not text.is_(at, TokenType.DISTINCT) or text.word(at + 1) != "ON" or not text.is_(at + 2, TokenType.L_PAREN):
            continue
        closed = text.closing(at + 2)
        if closed is None:
            continue
        end = _end_of_select(text, closed + 1)
        if _has_position(text, at + 3, closed) or (text.is_(end, TokenType.ORDER_BY) and _has_position(text, end + 1)):
            continue
        keys, order = text.between(at + 3, closed - 1), _order(text, end)
        first = f" QUALIFY row_number() OVER (PARTITION BY {keys} ORDER BY {order or keys}) = 1 "
        stop = text.tokens[end].start if end < len(text.tokens) else len(text.sql)
        head, body = text.sql[: text.tokens[at].start], text.between(closed + 1, end - 1)
        return head + body + first + text.sql[stop:]  # without a comment behind the body, which would hold the rest too
    return None


def _end_of_select(text: Text, at: int) -> int:
    """Return the token behind the clauses of a SELECT, from its list up to QUALIFY."""
    depth = 0
    while at < len(text.tokens) and (depth or not text.is_(at, *_ENDS_SELECT) or _leaves_out(text, at)):
        opens = text.is_(at, TokenType.L_PAREN, TokenType.L_BRACKET)
        depth += opens - text.is_(at, TokenType.R_PAREN, TokenType.R_BRACKET)
        at += 1
    return at


def _leaves_out(text: Text, at: int) -> bool:
    """Tell whether it is the EXCEPT of `* EXCEPT (a)`."""
    return text.is_(at, TokenType.EXCEPT) and text.is_(at - 1, TokenType.STAR)


def _has_position(text: Text, first: int, stop: int | None = None) -> bool:
    """Tell whether a number stands for a column of the list: in a window it is a constant, which orders nothing."""
    stop, depth = _end_of_select(text, first) if stop is None else stop, 0
    for at in range(first, stop):
        begins = depth == 0 and (at == first or text.is_(at - 1, TokenType.COMMA))
        alone = at + 1 == stop or text.is_(at + 1, TokenType.COMMA) or text.word(at + 1) in ("ASC", "DESC", "NULLS")
        if begins and alone and text.is_(at, TokenType.NUMBER):
            return True
        opens = text.is_(at, TokenType.L_PAREN, TokenType.L_BRACKET)
        depth += opens - text.is_(at, TokenType.R_PAREN, TokenType.R_BRACKET)
    return False


def _order(text: Text, at: int) -> str:
    if not text.is_(at, TokenType.ORDER_BY):
        return ""
    return text.between(at + 1, _end_of_select(text, at + 1) - 1)


def fetch_first(text: Text) -> str | None:
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


def ordered_list(text: Text) -> str | None:
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


def _order_inside(text: Text, first: int, closed: int) -> int | None:
    """Return the ORDER BY of the call itself, not of a call or query inside it."""
    depth = 0
    for at in range(first, closed):
        depth += text.is_(at, TokenType.L_PAREN) - text.is_(at, TokenType.R_PAREN)
        if depth == 0 and text.is_(at, TokenType.ORDER_BY):
            return at
    return None


PASSES: tuple[Callable[[Text], str | None], ...] = (
    quantified_comparison,
    compared_elements,
    similar_to,
    *((distinct_on,) if HAS_QUALIFY else ()),
    fetch_first,
    ordered_list,
)
