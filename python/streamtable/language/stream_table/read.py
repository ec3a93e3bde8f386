"""Trees of stream tables to statements, with the refusals that the grammar cannot express."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from lark import Token, v_args
from lark.tree import Meta

from streamtable.language.names import COMMENT, Condition, Name
from streamtable.language.stream_table.ast import (
    AcceptDefinition,
    AlterStreamTable,
    ColumnSpec,
    CommentColumns,
    CreateStreamTable,
    DescribeStreamTable,
    DropStreamTable,
    ExplainAlter,
    ExplainCreate,
    ExplainStreamTable,
    RefreshMode,
    RefreshStreamTable,
    RefreshStreamTables,
    Rename,
    Resume,
    SetComment,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    Suspend,
    UnsetProperties,
    VerifyStreamTable,
    VerifyStreamTables,
)
from streamtable.language.stream_table.expectations import AddExpectation, DropExpectation, Expectation, Violation
from streamtable.language.stream_table.read_history import HistoryRules
from streamtable.language.stream_table.read_schedule import ScheduleRules
from streamtable.language.stream_table.schedule import Calculated, Manual
from streamtable.language.stream_table.scheduler import AlterScheduler
from streamtable.language.stream_table.state import SetState, StateMode
from streamtable.language.transformer import Clause, Rules, second
from streamtable.sql.literals import quote_string, unquote_string

__all__ = ["STREAM_TABLES", "StreamTableRules"]

Properties = tuple[tuple[str, str], ...]
Listed: TypeAlias = tuple[tuple[ColumnSpec, ...], tuple[Expectation, ...]]
"""What stands in parentheses behind the name of CREATE: columns and expectations."""

MAXIMUM_LIMIT = 2**31 - 1  # Spark's LIMIT is an int

_RESERVED = ("owner", "provider", "location", "external", "is_managed_location")
"""Properties that Spark sets itself: it silently drops a user's values."""

# Rules whose statement has the rule's children as its fields.
STREAM_TABLES: Mapping[str, Callable[..., Any]] = {
    "accept_definition": AcceptDefinition,
    "alter": AlterStreamTable,
    "auto": lambda: RefreshMode.AUTO,
    "calculated": Calculated,
    "drop_row": lambda: Violation.DROP_ROW,
    "drop_schedule": lambda: SetSchedule(Manual()),
    "explain_alter": ExplainAlter,
    "explain_create": ExplainCreate,
    "fail_update": lambda: Violation.FAIL_UPDATE,
    "full": lambda: RefreshMode.FULL,
    "manual": Manual,
    "rename": Rename,
    "resume": Resume,
    "set_comment": SetComment,
    "set_query": SetQuery,
    "show_create": ShowCreateStreamTable,
    "show_dependencies": ShowDependencies,
    "show_refresh_history": ShowRefreshHistory,
    "show_stream_tables": ShowStreamTables,
    "suspend": Suspend,
    "verify": VerifyStreamTable,
    "verify_all": VerifyStreamTables,
}


class _Named(NamedTuple):
    """An expectation, and its name as it stands in the text."""

    name: Token
    expectation: Expectation


@v_args(meta=True, inline=True)
class StreamTableRules(ScheduleRules, HistoryRules):
    """The rules of the statements on stream tables."""

    or_refresh = if_not_exists = if_exists = cascade = full_refresh = asynchronous = extended = delta = strict = Rules.flag

    # Clauses

    def differential(self, at: Meta, strict: Meta | None) -> RefreshMode:
        return RefreshMode.DIFFERENTIAL if strict is None else RefreshMode.STRICT

    incremental = differential

    def mode_clause(self, at: Meta, value: RefreshMode) -> Clause:
        return Clause("REFRESH MODE", "mode", value, at)

    def state(self, at: Meta, word: Token) -> StateMode:
        return StateMode(word.upper())

    def state_clause(self, at: Meta, value: StateMode) -> Clause:
        return Clause("STATE", "state", value, at)

    def with_no_data(self, at: Meta) -> Clause:
        return Clause("WITH NO DATA", "with_data", False, at)

    def partitioned_by(self, at: Meta, *columns: Token) -> Clause:
        return Clause("PARTITIONED BY", "partitioned_by", self._columns(columns), at)

    def cluster_by(self, at: Meta, *columns: Token) -> Clause:
        return Clause("CLUSTER BY", "clustered_by", self._columns(columns), at)

    def comment(self, at: Meta, value: str) -> Clause:
        return Clause("COMMENT", "comment", value, at)

    def location(self, at: Meta, value: str) -> Clause:
        if not value.strip():
            raise self._invalid(at, "the location is empty", "write a path, or leave LOCATION out")
        return Clause("LOCATION", "location", value, at)

    def tblproperties(self, at: Meta, value: Properties) -> Clause:
        return Clause("TBLPROPERTIES", "properties", value, at)

    def properties(self, at: Meta, *pairs: tuple[Token, str]) -> Properties:
        keys = self._property_keys([key for key, _ in pairs])
        return tuple(zip(keys, (value for _, value in pairs), strict=True))

    def property(self, at: Meta, key: Token, value: str) -> tuple[Token, str]:
        return key, value

    def property_key(self, at: Meta, *parts: Token) -> Token:
        first = parts[0]
        return first.update(value=unquote_string(first) if first.type == "STRING" else ".".join(parts))

    def property_value(self, at: Meta, token: Token) -> str:
        return unquote_string(token) if token.type == "STRING" else token.lower()

    def column_list(self, at: Meta, *listed: tuple[Token, str | None] | _Named) -> Listed:
        expected = [each for each in listed if isinstance(each, _Named)]
        columns = [each for each in listed if not isinstance(each, _Named)]
        if (again := second((each.name for each in expected), key=str.casefold)) is not None:
            raise self._invalid(again, f"the expectation '{again}' is there twice", "give each a name of its own")
        names = self._columns([name for name, _ in columns])
        specs = tuple(ColumnSpec(name, comment) for name, (_, comment) in zip(names, columns, strict=True))
        return specs, tuple(each.expectation for each in expected)

    def column_constraint(self, at: Meta, name: Token, _: Token, comment: str) -> tuple[Token, str]:
        return name, comment

    def expectation(self, at: Meta, name: Token, condition: Condition, violation: Violation | None = None) -> _Named:
        return _Named(name, Expectation(str(name), condition, violation or Violation.KEEP))

    def column(self, at: Meta, name: Token, comment: str | None) -> tuple[Token, str | None]:
        return name, comment

    # Statements

    def or_replace(self, at: Meta, refresh: Meta | None = None) -> bool:
        """Tell whether it is OR REFRESH."""
        return refresh is not None

    def create(
        self,
        at: Meta,
        or_replace: bool | None,
        if_not_exists: Meta | None,
        name: Name,
        listed: Listed | None,
        *clauses_and_query: Any,
    ) -> CreateStreamTable:
        *clauses, query = clauses_and_query
        if or_replace is not None and if_not_exists is not None:
            message = f"OR {'REFRESH' if or_replace else 'REPLACE'} and IF NOT EXISTS exclude each other"
            raise self._invalid(if_not_exists, message, "leave one of them out")
        columns, expectations = listed or ((), ())
        fields = {**self._fields(clauses), "or_refresh": bool(or_replace), "expectations": expectations}
        return CreateStreamTable(name, query, columns, or_replace is not None, if_not_exists is not None, **fields)

    def set_schedule(self, at: Meta, clause: Clause) -> SetSchedule:
        return SetSchedule(clause.value)

    def set_mode(self, at: Meta, clause: Clause) -> SetMode:
        return SetMode(clause.value)

    def set_state(self, at: Meta, clause: Clause) -> SetState:
        return SetState(clause.value)

    def set_properties(self, at: Meta, clause: Clause) -> SetProperties:
        return SetProperties(clause.value)

    def alter_scheduler(self, at: Meta, action: Suspend | Resume) -> AlterScheduler:
        return AlterScheduler(isinstance(action, Suspend))

    def unset_properties(self, at: Meta, if_exists: Meta | None, *keys: Token) -> UnsetProperties:
        return UnsetProperties(self._property_keys(keys), if_exists is not None)

    def add_expectation(self, at: Meta, named: _Named) -> AddExpectation:
        return AddExpectation(named.expectation)

    def drop_expectation(self, at: Meta, if_exists: Meta | None, name: Token) -> DropExpectation:
        return DropExpectation(str(name), if_exists is not None)

    def comment_columns(self, at: Meta, *comments: tuple[Token, str]) -> CommentColumns:
        return CommentColumns(
            tuple(zip(self._columns([name for name, _ in comments]), (text for _, text in comments), strict=True))
        )

    def commented(self, at: Meta, name: Token, comment: str) -> tuple[Token, str]:
        return name, comment

    def drop(self, at: Meta, if_exists: Meta | None, name: Name, cascade: Meta | None) -> DropStreamTable:
        return DropStreamTable(name, if_exists is not None, cascade is not None)

    def refresh(self, at: Meta, *parts: Any) -> RefreshStreamTable:
        *names, full, cascade, asynchronous = parts
        return RefreshStreamTable(tuple(names), full is not None, cascade is not None, bool(asynchronous))

    def refresh_all(
        self, at: Meta, namespace: Name | None, like: str | None, full: Meta | None, asynchronous: bool | None
    ) -> RefreshStreamTables:
        return RefreshStreamTables(namespace, like, full is not None, bool(asynchronous))

    def pattern(self, at: Meta, token: Token) -> str:
        """Return a pattern, in which * stands for any text; [%] is the character."""
        value = self.string(at, token)
        if "%" in value.replace("[%]", ""):
            message = f"a pattern of names has * for any text, and {value!r} has a %"
            raise self._invalid(at, message, f"write LIKE {quote_string(value.replace('%', '*'))}")
        return value

    def waiting(self, at: Meta, asynchronous: Meta | None = None) -> bool:
        """Tell whether it is ASYNC."""
        return asynchronous is not None

    def describe(self, at: Meta, extended: Meta | None, name: Name) -> DescribeStreamTable:
        return DescribeStreamTable(name, extended is not None)

    def limit(self, at: Meta, token: Token) -> int:
        if len(token) > len(str(MAXIMUM_LIMIT)) or int(token) > MAXIMUM_LIMIT:
            raise self._invalid(at, "the limit is too large", f"write at most {MAXIMUM_LIMIT}, or leave LIMIT out")
        return int(token)

    def explain(self, at: Meta, delta: Meta | None, name: Name) -> ExplainStreamTable:
        return ExplainStreamTable(name, delta is not None)

    # What several rules need

    def _property_keys(self, keys: Sequence[Token]) -> tuple[str, ...]:
        """Return the names of properties; those of the engine and of Spark are not for statements."""
        again = second(keys, key=str)
        if again is not None:
            raise self._invalid(again, f"the property '{again}' is named twice", "name it once")
        ours = next((key for key in keys if key.casefold().startswith("streamtable.")), None)
        if ours is not None:
            message = f"the property '{ours}' is one of those in which streamtable keeps the definition"
            raise self._invalid(ours, message, "choose a name that does not start with streamtable.")
        reserved = next((key for key in keys if key.casefold() in _RESERVED), None)
        if reserved is not None:
            raise self._invalid(reserved, f"the property '{reserved}' is reserved by Spark", "choose another name")
        return tuple(map(str, keys))

    def _fields(self, clauses: Iterable[Clause]) -> dict[str, Any]:
        """Return the fields that the clauses of CREATE set. Each clause may occur once, and only one of the layouts.

        The property `comment` is what COMMENT says, as for Spark.
        """
        given = self._given(clauses)
        if "partitioned_by" in given and "clustered_by" in given:
            second = max(given["partitioned_by"], given["clustered_by"], key=lambda clause: clause.at.start_pos)
            message = "PARTITIONED BY and CLUSTER BY exclude each other"
            raise self._invalid(second.at, message, "leave one of them out; Delta lays a table out in one way")
        if "with_data" in given and "backfill" in given:
            message = "WITH NO DATA and BACKFILL FROM exclude each other"
            raise self._invalid(given["with_data"].at, message, "leave one of them out")
        fields = {field: clause.value for field, clause in given.items()}
        properties = dict(fields.get("properties", ()))
        if COMMENT not in properties:
            return fields
        comment = properties.pop(COMMENT)
        return {"comment": comment, **fields, "properties": tuple(properties.items())}
