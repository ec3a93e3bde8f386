"""Trees of the grammar to statements, and the refusals of what the grammar alone lets through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from lark import Token, Transformer, v_args
from lark.tree import Meta

from streamtable.errors import InvalidStatement
from streamtable.sql import schedule
from streamtable.sql.comments import end_of_query
from streamtable.sql.literals import unquote_name, unquote_string
from streamtable.sql.statements import (
    AlterStreamTable,
    Calculated,
    ColumnSpec,
    CreateStreamTable,
    Cron,
    DescribeStreamTable,
    DropStreamTable,
    Every,
    ExplainCreate,
    ExplainStreamTable,
    Manual,
    Name,
    Query,
    RefreshMode,
    RefreshStreamTable,
    Rename,
    Resume,
    Schedule,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    Suspend,
    VerifyStreamTable,
)
from streamtable.sql.syntax_errors import invalid, place, syntax_error

T = TypeVar("T")
Properties = tuple[tuple[str, str], ...]

MAXIMUM_LIMIT = 2**31 - 1  # Spark's LIMIT is an int
_NAME_PARTS = ("catalog", "schema", "table")

_RESERVED = ("owner", "provider", "location", "external", "is_managed_location")
"""Properties that Spark sets itself: what a user sets is dropped without a word."""

# Rules whose statement has the rule's children as its fields.
_AS_THEY_ARE: Mapping[str, Callable[..., Any]] = {
    "alter": AlterStreamTable,
    "auto": lambda: RefreshMode.AUTO,
    "calculated": Calculated,
    "differential": lambda: RefreshMode.DIFFERENTIAL,
    "explain_create": ExplainCreate,
    "full": lambda: RefreshMode.FULL,
    "manual": Manual,
    "rename": Rename,
    "resume": Resume,
    "set_query": SetQuery,
    "show_create": ShowCreateStreamTable,
    "show_dependencies": ShowDependencies,
    "show_refresh_history": ShowRefreshHistory,
    "show_stream_tables": ShowStreamTables,
    "suspend": Suspend,
    "verify": VerifyStreamTable,
}


class _Clause(NamedTuple):
    """A clause: its keywords, the field of CreateStreamTable that it sets, the value, and where it stands."""

    keywords: str
    field: str
    value: Any
    at: Meta


@v_args(meta=True, inline=True)
class ToStatement(Transformer[Token, Any]):
    """Turn the tree of one text into dataclasses; a method has the name of its rule, optional children may be None.

    The methods raise StatementSyntaxError and InvalidStatement, which lark wraps in VisitError.
    """

    def __init__(self, text: str, minimum_seconds: int) -> None:
        super().__init__()
        self._text = text
        self._minimum = minimum_seconds

    def __default__(self, data: Any, children: list[Any], meta: Meta) -> Any:
        return _AS_THEY_ARE[data](*children)

    def flag(self, at: Meta) -> Meta:
        """Return where the words stand of which it matters only that they are there."""
        return at

    or_replace = if_not_exists = if_exists = cascade = full_refresh = extended = delta = flag

    # Names, strings and the query

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

    def string(self, at: Meta, token: Token) -> str:
        return unquote_string(token)

    def query(self, at: Meta, token: Token) -> Query:
        start = at.start_pos
        end = end_of_query(self._text, start)
        if start == end:
            raise syntax_error(self._text, start, len(self._text), "expected a query, found nothing but comments")
        return Query(self._text[start:end], start, *place(self._text, start))

    # Clauses

    def schedule_clause(self, at: Meta, value: Schedule) -> _Clause:
        return _Clause("SCHEDULE", "schedule", value, at)

    def every(self, at: Meta, token: Token) -> Every:
        return self._at(at, lambda: schedule.duration(unquote_string(token), self._minimum))

    def cron(self, at: Meta, expression: Token, zone: Token | None) -> Cron:
        return self._at(at, lambda: schedule.cron(unquote_string(expression), None if zone is None else unquote_string(zone)))

    def mode_clause(self, at: Meta, value: RefreshMode) -> _Clause:
        return _Clause("REFRESH MODE", "mode", value, at)

    def with_no_data(self, at: Meta) -> _Clause:
        return _Clause("WITH NO DATA", "with_data", False, at)

    def partitioned_by(self, at: Meta, *columns: Token) -> _Clause:
        return _Clause("PARTITIONED BY", "partitioned_by", self._columns(columns), at)

    def cluster_by(self, at: Meta, *columns: Token) -> _Clause:
        return _Clause("CLUSTER BY", "clustered_by", self._columns(columns), at)

    def comment(self, at: Meta, value: str) -> _Clause:
        return _Clause("COMMENT", "comment", value, at)

    def location(self, at: Meta, value: str) -> _Clause:
        if not value.strip():
            raise self._invalid(at, "the location is empty", "write a path, or leave LOCATION out")
        return _Clause("LOCATION", "location", value, at)

    def tblproperties(self, at: Meta, value: Properties) -> _Clause:
        return _Clause("TBLPROPERTIES", "properties", value, at)

    def properties(self, at: Meta, *pairs: tuple[Token, str]) -> Properties:
        second = _second((key for key, _ in pairs), key=str)
        if second is not None:
            raise self._invalid(second, f"the property '{second}' is set twice", "set it once")
        ours = next((key for key, _ in pairs if key.casefold().startswith("streamtable.")), None)
        if ours is not None:
            message = f"the property '{ours}' is one of those in which streamtable keeps the definition"
            raise self._invalid(ours, message, "choose a name that does not start with streamtable.")
        reserved = next((key for key, _ in pairs if key.casefold() in _RESERVED), None)
        if reserved is not None:
            raise self._invalid(reserved, f"the property '{reserved}' is reserved by Spark", "choose another name")
        return tuple((str(key), value) for key, value in pairs)

    def property(self, at: Meta, key: Token, value: str) -> tuple[Token, str]:
        return key, value

    def property_key(self, at: Meta, *parts: Token) -> Token:
        first = parts[0]
        return first.update(value=unquote_string(first) if first.type == "STRING" else ".".join(parts))

    def property_value(self, at: Meta, token: Token) -> str:
        return unquote_string(token) if token.type == "STRING" else token.lower()

    def column_list(self, at: Meta, *columns: tuple[Token, str | None]) -> tuple[ColumnSpec, ...]:
        names = self._columns([name for name, _ in columns])
        return tuple(ColumnSpec(name, comment) for name, (_, comment) in zip(names, columns, strict=True))

    def column(self, at: Meta, name: Token, comment: str | None) -> tuple[Token, str | None]:
        return name, comment

    # Statements

    def create(
        self,
        at: Meta,
        or_replace: Meta | None,
        if_not_exists: Meta | None,
        name: Name,
        columns: tuple[ColumnSpec, ...] | None,
        *clauses_and_query: Any,
    ) -> CreateStreamTable:
        *clauses, query = clauses_and_query
        if or_replace is not None and if_not_exists is not None:
            message = "OR REPLACE and IF NOT EXISTS exclude each other"
            raise self._invalid(if_not_exists, message, "leave one of them out")
        fields = self._fields(clauses)
        return CreateStreamTable(name, query, columns or (), or_replace is not None, if_not_exists is not None, **fields)

    def set_schedule(self, at: Meta, clause: _Clause) -> SetSchedule:
        return SetSchedule(clause.value)

    def set_mode(self, at: Meta, clause: _Clause) -> SetMode:
        return SetMode(clause.value)

    def set_properties(self, at: Meta, clause: _Clause) -> SetProperties:
        return SetProperties(clause.value)

    def drop(self, at: Meta, if_exists: Meta | None, name: Name, cascade: Meta | None) -> DropStreamTable:
        return DropStreamTable(name, if_exists is not None, cascade is not None)

    def refresh(self, at: Meta, name: Name, full: Meta | None, cascade: Meta | None) -> RefreshStreamTable:
        return RefreshStreamTable(name, full is not None, cascade is not None)

    def describe(self, at: Meta, extended: Meta | None, name: Name) -> DescribeStreamTable:
        return DescribeStreamTable(name, extended is not None)

    def limit(self, at: Meta, token: Token) -> int:
        if len(token) > len(str(MAXIMUM_LIMIT)) or int(token) > MAXIMUM_LIMIT:
            raise self._invalid(at, "the limit is too large", f"write at most {MAXIMUM_LIMIT}, or leave LIMIT out")
        return int(token)

    def explain(self, at: Meta, delta: Meta | None, name: Name) -> ExplainStreamTable:
        return ExplainStreamTable(name, delta is not None)

    # What several rules need

    def _fields(self, clauses: Iterable[_Clause]) -> dict[str, Any]:
        """Return what the clauses of CREATE set; each may stand there once, and only one of the layouts."""
        given = dict[str, _Clause]()
        for clause in clauses:
            if clause.field in given:
                line, column = place(self._text, given[clause.field].at.start_pos)
                message = f"{clause.keywords} is written twice; the first is on line {line}, column {column}"
                raise syntax_error(self._text, *_span(clause.at), message, "leave one of them out")
            given[clause.field] = clause
        if "partitioned_by" in given and "clustered_by" in given:
            second = max(given["partitioned_by"], given["clustered_by"], key=lambda clause: clause.at.start_pos)
            message = "PARTITIONED BY and CLUSTER BY exclude each other"
            raise self._invalid(second.at, message, "leave one of them out; Delta lays a table out in one way")
        return {field: clause.value for field, clause in given.items()}

    def _columns(self, columns: Iterable[Token]) -> tuple[str, ...]:
        """Return the names; Delta keeps no two columns whose names differ in case only."""
        names = tuple(columns)
        second = _second(names, key=str.casefold)
        if second is not None:
            raise self._invalid(second, f"the column '{second}' is listed twice", "list it once")
        return tuple(map(str, names))

    def _name(self, at: Meta, parts: tuple[Token, ...], kinds: tuple[str, ...]) -> Name:
        if len(parts) > len(kinds):
            message = f"a name of {len(parts)} parts; it may have {len(kinds)} at most: {'.'.join(kinds)}"
            raise self._invalid(at, message, "put a name that has dots in it in backquotes")
        return Name(tuple(map(str, parts)))

    def _at(self, at: Meta, read: Callable[[], T]) -> T:
        """Call `read`, and add to what it refuses where that stands."""
        try:
            return read()
        except InvalidStatement as error:
            raise self._invalid(at, error.reason, error.hint) from None

    def _invalid(self, at: Meta | Token, message: str, hint: str | None) -> InvalidStatement:
        return invalid(self._text, *_span(at), message, hint)


def _second(tokens: Iterable[Token], key: Callable[[Token], str]) -> Token | None:
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
