"""The table functions: the state of stream tables, as rows for any query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, DoubleType, IntegerType, LongType, StringType, StructType, TimestampType

from streamtable.catalog.entries import Entry, entries, load
from streamtable.errors import InvalidStatement
from streamtable.language.parse import parse_name
from streamtable.observe.alerts import alerts
from streamtable.observe.dependencies import dependency_rows
from streamtable.observe.freshness import Freshness, freshness
from streamtable.observe.health import Health, health, source_health
from streamtable.observe.replication_views import VIEWS
from streamtable.observe.results import Row, Rows, columns
from streamtable.refresh.choose import Action
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.history import Line, errors_in_a_row, history

__all__ = ["FUNCTIONS", "call", "describe"]


@dataclass(frozen=True)
class Asked:
    """The request of a call: the named stream tables, or all, and the `limit` of rows."""

    spark: SparkSession
    name: str | None
    limit: int | None

    @cached_property
    def tables(self) -> list[Entry]:
        return [load(self.spark, parse_name(self.name))] if self.name is not None else self._all

    @cached_property
    def fresh(self) -> dict[str, Freshness]:
        return freshness(self.spark, list({each.path: each for each in (*self._all, *self.tables)}.values()))

    @cached_property
    def health(self) -> list[Health]:
        return source_health(self.spark, self.tables) if self.name is not None else health(self.spark, self.tables)

    @cached_property
    def _all(self) -> list[Entry]:
        return list(entries(self.spark))


@dataclass(frozen=True)
class TableFunction:
    """One function: its columns, its source of rows, and the meaning of one row. `parameters` are optional."""

    columns: StructType
    rows: Callable[[Asked], Rows]
    each: str = "stream table"
    parameters: tuple[str, ...] = ("name",)


def describe(name: str, arguments: Sequence[str | None]) -> StructType:
    """Return the columns of the function; raise InvalidStatement for arguments that it does not take."""
    _arguments(name, arguments)
    return FUNCTIONS[name].columns


def call(spark: SparkSession, name: str, arguments: Sequence[str | None]) -> Rows:
    """Return the rows of the function. Raises StreamTableNotFound, with near names."""
    return FUNCTIONS[name].rows(Asked(spark, *_arguments(name, arguments)))


def _arguments(function: str, arguments: Sequence[str | None]) -> tuple[str | None, int | None]:
    parameters = FUNCTIONS[function].parameters
    name, limit = (*arguments, None, None)[:2]
    usage = f"call it as {function}([{', '.join(parameters)}])"
    if len(arguments) > len(parameters):
        raise InvalidStatement(f"{function} takes at most {len(parameters)} arguments, not {len(arguments)}", hint=usage)
    if limit is not None and not limit.isdecimal():
        raise InvalidStatement(f"the limit of {function} cannot be {limit!r}", hint=usage)
    return name, None if limit is None else int(limit)


def _stream_tables(asked: Asked) -> Rows:
    return [_stream_table(asked, entry) for entry in asked.tables]


def _stream_table(asked: Asked, entry: Entry) -> Row:
    definition, frontier = entry.definition, Frontier.of(entry.state.frontier)
    error = definition.error
    return (
        definition.name,
        definition.status,
        definition.statement.mode.value,
        definition.statement.schedule.sql(),
        frontier is not None,
        *_age(asked.fresh[entry.path]),
        frontier.action if frontier else None,
        entry.state.version,
        errors_in_a_row(entry, history(asked.spark, [entry])),
        error.message if error else None,
        error.condition if error else None,
        definition.statement.query.text,
        entry.path,
    )


def _age(fresh: Freshness) -> Row:
    return fresh.data_timestamp, None if fresh.staleness is None else fresh.staleness.total_seconds(), fresh.stale


def _staleness(asked: Asked) -> Rows:
    return [(each.definition.name, *_age(asked.fresh[each.path]), asked.fresh[each.path].deadline) for each in asked.tables]


def _refresh_history(asked: Asked) -> Rows:
    return [_refreshed(line) for line in islice(history(asked.spark, asked.tables), asked.limit)]


def _refreshed(line: Line) -> Row:
    record = line.record
    failed = record.action is Action.FAILED
    return (
        line.name,
        line.version,
        line.started,
        line.at,
        record.action.value,
        _status(record.action),
        record.rows_inserted,
        record.rows_deleted,
        record.duration_ms,
        None if failed else record.reason,
        record.reason if failed else None,
        record.initiated_by,
    )


def _status(action: Action) -> str:
    return action.value if action in (Action.FAILED, Action.SKIPPED) else "COMPLETED"


def _refresh_stats(asked: Asked) -> Rows:
    return [_stats(asked, entry) for entry in asked.tables]


def _stats(asked: Asked, entry: Entry) -> Row:
    definition, lines = entry.definition, list(history(asked.spark, [entry]))
    completed = [line.record for line in lines if _status(line.record.action) == "COMPLETED"]
    failed = sum(line.record.action is Action.FAILED for line in lines)
    last = next((line for line in lines if line.record.action is not Action.SKIPPED), None)
    times = [record.duration_ms for record in completed]
    return (
        definition.name,
        definition.status,
        definition.statement.mode.value,
        entry.state.frontier is not None,
        len(completed) + failed,
        len(completed),
        failed,
        errors_in_a_row(entry, lines),
        sum(record.rows_inserted for record in completed),
        sum(record.rows_deleted for record in completed),
        sum(times) / len(times) if times else None,
        max(times, default=None),
        last.record.action.value if last else None,
        _status(last.record.action) if last else None,
        last.at if last else None,
        *_age(asked.fresh[entry.path]),
    )


def _source_health(asked: Asked) -> Rows:
    return [
        (
            each.name,
            each.source,
            each.state.value,
            each.change_mode,
            each.read,
            each.latest,
            None if each.read is None or each.latest is None else each.latest - each.read,
            each.behind_since,
            each.history_until,
            each.warning,
            each.path,
        )
        for each in asked.health
    ]


def _dependencies(asked: Asked) -> Rows:
    return dependency_rows(asked.spark, asked.tables)


def _alerts(asked: Asked) -> Rows:
    found = alerts(asked.spark, asked.tables, asked.fresh, asked.health)
    return [(each.name, each.kind.value, each.since, each.text) for each in found]


def _shown(rows: Callable[[SparkSession, str | None], Rows], asked: Asked) -> Rows:
    return rows(asked.spark, asked.name)


_AGE: Mapping[str, type[DataType]] = {
    "data_timestamp": TimestampType,
    "staleness_seconds": DoubleType,
    "stale": BooleanType,
}

FUNCTIONS: Mapping[str, TableFunction] = {
    "stream_tables": TableFunction(
        columns(
            name=StringType,
            status=StringType,
            refresh_mode=StringType,
            schedule=StringType,
            is_populated=BooleanType,
            **_AGE,
            last_action=StringType,
            version=LongType,
            consecutive_errors=IntegerType,
            error=StringType,
            error_condition=StringType,
            query=StringType,
            location=StringType,
        ),
        _stream_tables,
    ),
    "refresh_history": TableFunction(
        columns(
            name=StringType,
            version=LongType,
            start_time=TimestampType,
            end_time=TimestampType,
            action=StringType,
            status=StringType,
            rows_inserted=LongType,
            rows_deleted=LongType,
            duration_ms=LongType,
            reason=StringType,
            error_message=StringType,
            initiated_by=StringType,
        ),
        _refresh_history,
        "refresh, failure or skip, the latest first",
        ("name", "limit"),
    ),
    "refresh_stats": TableFunction(
        columns(
            name=StringType,
            status=StringType,
            refresh_mode=StringType,
            is_populated=BooleanType,
            total_refreshes=LongType,
            successful_refreshes=LongType,
            failed_refreshes=LongType,
            consecutive_errors=IntegerType,
            total_rows_inserted=LongType,
            total_rows_deleted=LongType,
            avg_duration_ms=DoubleType,
            max_duration_ms=LongType,
            last_refresh_action=StringType,
            last_refresh_status=StringType,
            last_refresh_at=TimestampType,
            **_AGE,
        ),
        _refresh_stats,
    ),
    "staleness": TableFunction(columns(name=StringType, **_AGE, deadline=TimestampType), _staleness),
    "source_health": TableFunction(
        columns(
            name=StringType,
            source=StringType,
            state=StringType,
            change_mode=StringType,
            version_read=LongType,
            latest_version=LongType,
            versions_behind=LongType,
            behind_since=TimestampType,
            history_until=TimestampType,
            warning=StringType,
            source_path=StringType,
        ),
        _source_health,
        "source of a stream table, table of a replication slot, and input of a queue's consumer (named `queue: consumer`)",
    ),
    "stream_table_dependencies": TableFunction(
        columns(name=StringType, source=StringType, kind=StringType), _dependencies, "source of a stream table"
    ),
    "alerts": TableFunction(columns(name=StringType, alert=StringType, since=TimestampType, text=StringType), _alerts, "alert"),
    **{name: TableFunction(columns, partial(_shown, rows), each) for name, (columns, rows, each) in VIEWS.items()},
}
"""All table functions. The shim's `TableFunctions.names` are these keys."""
