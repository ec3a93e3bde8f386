"""The table functions: the state of stream tables, as rows for any query."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, islice

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DoubleType, IntegerType, LongType, StringType, StructType, TimestampType

from streamtable.catalog.entries import Entry, listed, load, readable, unreadable
from streamtable.catalog.requests import Request
from streamtable.delta.unreadable import Unreadable
from streamtable.engine import clock
from streamtable.language.names import Name
from streamtable.language.parse import parse_name
from streamtable.observe.alerts import alerts
from streamtable.observe.dependencies import DEPENDENCIES, dependency_rows
from streamtable.observe.expectations import EXPECTATIONS, expectation_rows
from streamtable.observe.freshness import Freshness, freshness
from streamtable.observe.health import Health, health, source_health
from streamtable.observe.replication_views import VIEWS
from streamtable.observe.results import Row, Rows, columns
from streamtable.observe.status_rows import AGE, STATUS, age, status_rows
from streamtable.refresh.choose import Action
from streamtable.refresh.cost import full_share
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.history import Line, errors_in_a_row, history
from streamtable.refresh.records import Initiator

__all__ = ["FUNCTIONS", "Asked"]


@dataclass(frozen=True)
class Asked:
    """The request of a call: the named stream tables, or all, and the `limit` of rows."""

    spark: SparkSession
    name: str | None
    limit: int | None

    @cached_property
    def listed(self) -> list[tuple[Name, Entry | Unreadable]]:
        """Return the stream tables with those that nobody can read; raise the error of one that is named."""
        return self._all if self.name is None else [(name := parse_name(self.name), load(self.spark, name))]

    @cached_property
    def tables(self) -> list[Entry]:
        return readable(self.listed)

    @cached_property
    def fresh(self) -> dict[str, Freshness]:
        return freshness(self.spark, list({each.path: each for each in (*readable(self._all), *self.tables)}.values()))

    @cached_property
    def health(self) -> list[Health]:
        return source_health(self.spark, self.tables) if self.name is not None else health(self.spark, self.tables)

    @cached_property
    def _all(self) -> list[tuple[Name, Entry | Unreadable]]:
        return list(listed(self.spark))


@dataclass(frozen=True)
class TableFunction:
    """One function: its columns, its source of rows, and the meaning of one row. `parameters` are optional."""

    columns: StructType
    rows: Callable[[Asked], Rows]
    each: str = "stream table"
    parameters: tuple[str, ...] = ("name",)


def _stream_tables(asked: Asked) -> Rows:
    return status_rows(asked.spark, STATUS, asked.listed, asked.fresh)


def _staleness(asked: Asked) -> Rows:
    return [(each.definition.name, *age(asked.fresh[each.path]), asked.fresh[each.path].deadline) for each in asked.tables]


def _refresh_history(asked: Asked) -> Rows:
    requested = (_requested(entry, each) for entry in asked.tables for each in entry.requests)
    return list(islice(chain(requested, map(_refreshed, history(asked.spark, asked.tables))), asked.limit))


def _requested(entry: Entry, request: Request) -> Row:
    """Return the row of a request that is not done."""
    status = "REQUESTED" if request.free(clock.now()) else "RUNNING"
    action = Action.FULL.value if request.full else None
    waits = "it waits for a scheduler" if request.taken is None else None
    times = (request.taken or request.at, None)
    last = (waits, None, Initiator.REQUEST.value, None, request.id, request.at, None)
    return (entry.definition.name, None, *times, action, status, None, None, None, *last)


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
        None if record.counts is None else str(record.counts),
        record.request,
        record.deadline,
        json.dumps(record.phases) if record.phases else None,
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
    frontier = Frontier.of(entry.state.frontier)
    runs = frontier.runs if frontier else ()
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
        next((ran.ms for ran in reversed(runs) if not ran.differential), None),
        full_share(runs),
        *age(asked.fresh[entry.path]),
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
    found = alerts(asked.spark, asked.tables, asked.fresh, asked.health, unreadable(asked.listed))
    return [(each.name, each.kind.value, each.since, each.text) for each in found]


def _shown(rows: Callable[[SparkSession, str | None], Rows], asked: Asked) -> Rows:
    return rows(asked.spark, asked.name)


FUNCTIONS: Mapping[str, TableFunction] = {
    "stream_tables": TableFunction(STATUS, _stream_tables),
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
            expectations=StringType,
            request=StringType,
            deadline=TimestampType,
            phases=StringType,
        ),
        _refresh_history,
        "request that is not done, then refresh, failure or skip, the latest first",
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
            last_full_ms=LongType,
            auto_full_share=DoubleType,
            **AGE,
        ),
        _refresh_stats,
    ),
    "staleness": TableFunction(columns(name=StringType, **AGE, deadline=TimestampType), _staleness),
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
        DEPENDENCIES,
        _dependencies,
        "table, view or function in a query",
    ),
    "expectations": TableFunction(EXPECTATIONS, lambda asked: expectation_rows(asked.tables), "expectation of a stream table"),
    "alerts": TableFunction(columns(name=StringType, alert=StringType, since=TimestampType, text=StringType), _alerts, "alert"),
    **{name: TableFunction(columns, partial(_shown, rows), each) for name, (columns, rows, each) in VIEWS.items()},
}
"""All table functions with fixed columns. The shim's `TableFunctions.names` are these keys and VIOLATIONS."""
