"""From a statement to its answer: the columns of each statement's result, and what carries it out."""

from __future__ import annotations

import fnmatch
from dataclasses import replace
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, LongType, StringType, StructType, TimestampType

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry, entries, find, load
from streamtable.delta.bridge import JavaRows
from streamtable.differentiate.rules import findings
from streamtable.handles import namespace_of
from streamtable.monitor.dependencies import dependency_rows
from streamtable.monitor.queues import describe_queue, run_queue
from streamtable.monitor.replication import describe_replication, run_replication
from streamtable.monitor.results import Rows, columns
from streamtable.monitor.whole import whole
from streamtable.refresh.alter import alter, with_query
from streamtable.refresh.checks import prepared_for
from streamtable.refresh.dry_run import rejected
from streamtable.refresh.explain import delta_text
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.history import Line, failure, history
from streamtable.refresh.lifecycle import create, drop
from streamtable.refresh.prepare import Prepared, prepare, release
from streamtable.refresh.replace import effect
from streamtable.refresh.run import Outcome, refresh
from streamtable.refresh.verdict import of_definition, of_next_refresh
from streamtable.refresh.verify import verify
from streamtable.schedule.cycle import cascade
from streamtable.schedule.failures import told
from streamtable.sessions import lend
from streamtable.sql.parse import AnyStatement
from streamtable.sql.printing import to_sql
from streamtable.sql.queue import QueueStatement
from streamtable.sql.replication import ReplicationStatement
from streamtable.sql.statements import (
    AlterStreamTable,
    CreateStreamTable,
    DescribeStreamTable,
    DropStreamTable,
    ExplainAlter,
    ExplainCreate,
    ExplainStreamTable,
    Name,
    RefreshStreamTable,
    SetQuery,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    VerifyStreamTable,
)
from streamtable.sql.subscribe import CloseCursor, CopyToStdout, DeclareCursor, Fetch, Subscribe
from streamtable.subscriptions import cursors
from streamtable.subscriptions.rows import LINES
from streamtable.subscriptions.subscription import schema_of

__all__ = ["RESULTS", "describe", "run"]


_REFRESHED = columns(
    name=StringType,
    action=StringType,
    reason=StringType,
    rows_inserted=LongType,
    rows_deleted=LongType,
    duration_ms=LongType,
    version=LongType,
)

RESULTS: dict[type, StructType] = {
    CreateStreamTable: _REFRESHED,
    RefreshStreamTable: _REFRESHED,
    AlterStreamTable: columns(name=StringType, status=StringType),
    DropStreamTable: columns(name=StringType, status=StringType),
    ShowStreamTables: columns(
        name=StringType,
        status=StringType,
        refresh_mode=StringType,
        schedule=StringType,
        last_action=StringType,
        version=LongType,
        error=StringType,
    ),
    DescribeStreamTable: columns(property=StringType, value=StringType),
    ShowCreateStreamTable: columns(createtab_stmt=StringType),
    ShowRefreshHistory: columns(
        name=StringType,
        version=LongType,
        at=TimestampType,
        action=StringType,
        reason=StringType,
        rows_inserted=LongType,
        rows_deleted=LongType,
        duration_ms=LongType,
    ),
    ShowDependencies: columns(name=StringType, source=StringType, kind=StringType),
    ExplainStreamTable: columns(operator=StringType, incremental=BooleanType, reason=StringType),
    ExplainCreate: columns(operator=StringType, incremental=BooleanType, reason=StringType),
    ExplainAlter: columns(operator=StringType, incremental=BooleanType, reason=StringType),
    VerifyStreamTable: columns(name=StringType, ok=BooleanType, missing=LongType, surplus=LongType),
    CopyToStdout: columns(line=StringType),
    DeclareCursor: columns(cursor=StringType, status=StringType),
    CloseCursor: columns(cursor=StringType, status=StringType),
}


def describe(spark: SparkSession, statement: AnyStatement) -> StructType:
    """Return the columns of the statement's result."""
    match statement:
        case Subscribe():
            return schema_of(spark, statement)
        case Fetch(cursor):
            return cursors.schema(spark, cursor)
        case _ if isinstance(statement, QueueStatement):
            return describe_queue(spark, statement)
        case _ if isinstance(statement, ReplicationStatement):
            return describe_replication(statement)
        case _:
            return RESULTS[type(statement)]


def run(spark: SparkSession, statement: AnyStatement) -> Rows | JavaRows:
    """Carry the statement out in the caller's session and return the rows of its result."""
    return whole(spark, statement, _run)


def _run(spark: SparkSession, statement: AnyStatement) -> Rows | JavaRows:
    match statement:
        case CreateStreamTable():
            return [_refreshed(create(spark, statement))]
        case RefreshStreamTable(name, full, with_sources):
            entry = load(spark, name)
            if with_sources:
                return [_refreshed(cascade(spark, entry, full))]
            with told(spark, entry.path):
                return [_refreshed(refresh(spark, entry, full))]
        case AlterStreamTable():
            altered = alter(spark, statement)
            return [(altered.name, altered.status)]
        case DropStreamTable():
            return [(each.name, _dropped(each.left)) for each in drop(spark, statement)]
        case ShowStreamTables(namespace, like):
            return [_shown(spark, each) for each in _listed(spark, namespace, like)]
        case DescribeStreamTable(name, extended):
            return _described(load(spark, name), extended)
        case ShowCreateStreamTable(name):
            return [(to_sql(load(spark, name).definition.statement),)]
        case ShowRefreshHistory(name, limit):
            lines = history(spark, [load(spark, name)] if name else entries(spark))
            return [_told(line) for line in islice(lines, limit)]
        case ShowDependencies(name):
            return dependency_rows(spark, [load(spark, name)] if name else None)
        case ExplainStreamTable(name, delta):
            return _explained(spark, load(spark, name), delta)
        case ExplainCreate(planned):
            return _explained_create(spark, planned)
        case ExplainAlter(name, SetQuery(query)):
            entry = load(spark, name)
            return _planned(spark, entry, *with_query(spark, entry, query))
        case VerifyStreamTable(name):
            verdict = verify(spark, load(spark, name))
            return [(verdict.name, verdict.ok, verdict.missing, verdict.surplus)]
        case Subscribe():
            return cursors.subscribe(spark, statement)
        case CopyToStdout(subscription):
            return cursors.subscribe(spark, subscription, LINES)
        case DeclareCursor(cursor, subscription):
            cursors.declare(spark, cursor, subscription)
            return [(cursor, "DECLARED")]
        case Fetch():
            return cursors.fetch(spark, statement)
        case CloseCursor(cursor):
            cursors.close(spark, cursor)
            return [(cursor, "CLOSED")]
        case _ if isinstance(statement, QueueStatement):
            return run_queue(spark, statement)
        case _:
            return run_replication(spark, statement)


def _dropped(left: tuple[str, ...]) -> str:
    return f"DROPPED, left what is not the table's: {', '.join(left)}" if left else "DROPPED"


def _refreshed(done: Outcome) -> tuple[Any, ...]:
    return (
        done.name,
        done.action.value,
        done.reason,
        done.rows_inserted,
        done.rows_deleted,
        done.duration_ms,
        done.version,
    )


def _listed(spark: SparkSession, namespace: Name | None, like: str | None) -> list[Entry]:
    space = namespace.parts if namespace else namespace_of(spark)
    patterns = [part.strip().casefold() for part in (like or "*").split("|")]
    return [
        each
        for each in entries(spark, space)
        if any(fnmatch.fnmatchcase(each.definition.statement.name.parts[-1].casefold(), pattern) for pattern in patterns)
    ]


def _shown(spark: SparkSession, entry: Entry) -> tuple[Any, ...]:
    definition, frontier = entry.definition, Frontier.of(entry.state.frontier)
    failed = failure(spark, entry, frontier.base + 1 if frontier else 0)
    error = definition.error.message if definition.error else None
    return (
        definition.name,
        definition.status,
        definition.statement.mode.value,
        definition.statement.schedule.sql(),
        failed.action.value if failed else frontier.action if frontier else None,
        entry.state.version,
        error or (failed.reason if failed else None),
    )


def _described(entry: Entry, extended: bool) -> Rows:
    definition, frontier = entry.definition, Frontier.of(entry.state.frontier)
    rows: Rows = [
        ("name", definition.name),
        ("status", definition.status),
        ("refresh_mode", definition.statement.mode.value),
        ("schedule", definition.statement.schedule.sql()),
        ("query", definition.statement.query.text),
        ("location", entry.path),
        ("version", str(entry.state.version)),
        ("last_action", frontier.action if frontier else None),
    ]
    if failure := definition.error:
        rows += [("error", failure.message), ("error_condition", failure.condition)]
        rows += [("failed_at", failure.at), ("failures_in_a_row", str(failure.failures))]
    for path, name in definition.sources.items():
        version = frontier.sources.get(path) if frontier else None
        rows.append((f"source {name}", f"version {version.number}" if version else "not read yet"))
    if extended:
        rows.append(("namespace", str(Name(definition.namespace))))
        rows += [(f"setting {key}", value) for key, value in sorted(definition.settings.items())]
        rows += [(f"arrangement {key}", f"version {v}") for key, v in (frontier.arrangements if frontier else {}).items()]
    return rows


def _told(line: Line) -> tuple[Any, ...]:
    record = line.record
    rows = (record.rows_inserted, record.rows_deleted)
    return (line.name, line.version, line.at, record.action.value, record.reason, *rows, record.duration_ms)


def _explained(spark: SparkSession, entry: Entry, delta: bool) -> Rows:
    definition = entry.definition
    session = lend(spark, definition.namespace, definition.settings)
    prepared = prepare(session, entry.query)
    try:
        prepared = replace(prepared, rejected=rejected(prepared))
        rows = [of_next_refresh(spark, entry, prepared), *_judged(prepared)]
        if delta:
            rows += [("Delta SQL", True, text) for text in delta_text(prepared, entry)]
        return rows
    finally:
        release(prepared)


def _judged(prepared: Prepared) -> Rows:
    judged = [prepared.rejected] if prepared.rejected else []
    return [(f.operator, f.incremental, f.reason) for f in (*judged, *findings(prepared.tree))]


def _explained_create(spark: SparkSession, statement: CreateStreamTable) -> Rows:
    located, existing = find(spark, statement.name)
    return _planned(spark, existing if statement.or_replace else None, *prepared_for(spark, statement, located, existing))


def _planned(spark: SparkSession, replaced: Entry | None, definition: Definition, prepared: Prepared) -> Rows:
    try:
        rows = [of_definition(definition.statement.mode, prepared), *_judged(prepared)]
        if replaced:
            rows.append(("Replace", True, effect(spark, replaced, definition, prepared)))
        return rows
    finally:
        release(prepared)
