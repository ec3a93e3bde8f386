"""The rules that all statements share: names, strings, queries, clauses, and refusals with their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from lark import Token, Transformer, v_args
from lark.tree import Meta

from streamtable.errors import InvalidStatement
from streamtable.language.comments import end_of_query
from streamtable.language.names import Condition, Name, Query
from streamtable.language.syntax_errors import invalid, place, syntax_error
from streamtable.sql.literals import unquote_name, unquote_string

__all__ = ["MOST_DIGITS", "Clause", "Rules", "second"]

T = TypeVar("T")

MOST_DIGITS = 18
"""Digits of the largest number in a statement: a BIGINT holds it, and Python refuses to read thousands."""

_NAME_PARTS = ("catalog", "schema", "table")
_PART = re.compile(r"\s*\+?([0-9]+)\s*(ms|s|m|h|d|w)\s*", re.IGNORECASE)
_MILLISECONDS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Clause(NamedTuple):
    """A clause: its keywords, the field of the statement that it sets, the value, and its place."""

    keywords: str
    field: str
    value: Any
    at: Meta


@v_args(meta=True, inline=True)
class Rules(Transformer[Token, Any]):
    """Turn parts of the tree of one text into data; a method has the name of its rule, optional children may be None.

    The methods raise StatementSyntaxError and InvalidStatement, which lark wraps in VisitError.
    """

    def __init__(self, text: str, minimum_seconds: int, stored: bool = False) -> None:
        super().__init__()
        self._text = text
        self._minimum, self._stored = minimum_seconds, stored

    def flag(self, at: Meta) -> Meta:
        """Return the place of words without a value."""
        return at

    def identifier(self, at: Meta, token: Token) -> Token:
        value = unquote_name(token)
        if not value:
            raise self._invalid(at, "a name cannot be empty", "write a name between the backquotes")
        return token.update(value=value)

    def name(self, at: Meta, *parts: Token) -> Name:
        if "/" in parts[-1]:
            raise self._invalid(
                at,
                "a stream table is named in a catalog; it cannot be named by a path",
                "give it a name; LOCATION in CREATE STREAM TABLE says where its files are",
            )
        return self._name(at, parts, _NAME_PARTS)

    def namespace(self, at: Meta, *parts: Token) -> Name:
        return self._name(at, parts, _NAME_PARTS[:-1])

    def relation(self, at: Meta, *parts: Token) -> Name:
        return self._name(at, parts, _NAME_PARTS)

    def string(self, at: Meta, token: Token) -> str:
        return unquote_string(token)

    def query(self, at: Meta, token: Token) -> Query:
        return self._query(at.start_pos, end_of_query(self._text, at.start_pos))

    def inner_query(self, at: Meta, token: Token) -> Query:
        return self._inside(at)

    def condition(self, at: Meta, token: Token) -> str:
        """Return the text for Spark in parentheses, without comments around it."""
        return self._inside(at).text

    def expected(self, at: Meta, token: Token) -> Condition:
        read = self._inside(at)
        return Condition(read.text, read.line, read.column)

    def where(self, at: Meta, condition: str) -> str:
        return condition

    def _inside(self, at: Meta) -> Query:
        """Return what stands in parentheses."""
        start, end = _span(at)
        lead = end - len(self._text[start:end].lstrip())
        return self._query(lead, end_of_query(self._text[:end], lead))

    def _query(self, start: int, end: int) -> Query:
        if start == end:
            raise syntax_error(self._text, start, len(self._text), "expected a query, found nothing but comments")
        return Query(self._text[start:end], start, *place(self._text, start))

    def _given(self, clauses: Iterable[Clause]) -> dict[str, Clause]:
        """Return the clauses by the field that they set; each may occur once."""
        given = dict[str, Clause]()
        for clause in clauses:
            if clause.field in given:
                line, column = place(self._text, given[clause.field].at.start_pos)
                message = f"{clause.keywords} is written twice; the first is on line {line}, column {column}"
                raise syntax_error(self._text, *_span(clause.at), message, "leave one of them out")
            given[clause.field] = clause
        return given

    def _columns(self, columns: Iterable[Token]) -> tuple[str, ...]:
        """Return the names; Delta keeps no two columns whose names differ in case only."""
        names = tuple(columns)
        again = second(names, key=str.casefold)
        if again is not None:
            raise self._invalid(again, f"the column '{again}' is listed twice", "list it once")
        return tuple(map(str, names))

    def _name(self, at: Meta, parts: tuple[Token, ...], kinds: tuple[str, ...]) -> Name:
        if len(parts) > len(kinds):
            message = f"a name of {len(parts)} parts; it may have {len(kinds)} at most: {'.'.join(kinds)}"
            raise self._invalid(at, message, "put a name that has dots in it in backquotes")
        return Name(tuple(map(str, parts)))

    def _milliseconds(self, at: Meta | Token, text: str, what: str = "time-out", days: int = 1) -> int:
        """Read a duration of at most so many days; of several units the largest comes first."""
        parts = [(int(number[:12]), _MILLISECONDS[unit.lower()]) for number, unit in _PART.findall(text)]
        units, milliseconds = [unit for _, unit in parts], sum(number * unit for number, unit in parts)
        in_turn = units == sorted(set(units), reverse=True)
        if not parts or _PART.sub("", text) or not in_turn or milliseconds > days * _MILLISECONDS["d"]:
            hint = f"write whole numbers with units, the largest first: '500ms', '1s', '1h30m', at most '{days}d'"
            raise self._invalid(at, f"{text!r} is no {what}", hint)
        return milliseconds

    def _at(self, at: Meta, read: Callable[[], T]) -> T:
        """Call `read`, and add the place to its errors."""
        try:
            return read()
        except InvalidStatement as error:
            raise self._invalid(at, error.reason, error.hint) from None

    def _invalid(self, at: Meta | Token, message: str, hint: str | None) -> InvalidStatement:
        return invalid(self._text, *_span(at), message, hint)


def second(tokens: Iterable[Token], key: Callable[[Token], str]) -> Token | None:
    """Return the first token whose key an earlier one has."""
    seen = set[str]()
    for token in tokens:
        if key(token) in seen:
            return token
        seen.add(key(token))
    return None


def _span(at: Meta | Token) -> tuple[int, int]:
    start, end = at.start_pos, at.end_pos
    assert start is not None and end is not None  # every token of the lexer has both
    return start, end
