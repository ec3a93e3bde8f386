"""From a statement to its answer: the columns of each statement's result, and the function that carries it out."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, LongType, StringType, StructType, TimestampType

from streamtable.catalog.definition import SUSPENDED
from streamtable.catalog.entries import Entry, entries, load
from streamtable.definitions.alter import alter
from streamtable.definitions.create import create
from streamtable.definitions.drop import drop
from streamtable.errors import InvalidStatement, RefreshError, StorageFailed
from streamtable.jvm.gateway import JavaRows
from streamtable.language.parse import AnyStatement
from streamtable.language.queue.ast import QueueStatement
from streamtable.language.replication.ast import ReplicationStatement
from streamtable.language.stream_table.ast import (
    AlterStreamTable,
    CreateStreamTable,
    DescribeStreamTable,
    DropStreamTable,
    ExplainAlter,
    ExplainCreate,
    ExplainStreamTable,
    RefreshStreamTable,
    RefreshStreamTables,
    SetQuery,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    VerifyStreamTable,
    VerifyStreamTables,
)
from streamtable.language.stream_table.schedule import Immediate
from streamtable.language.stream_table.scheduler import AlterScheduler
from streamtable.language.subscribe.ast import CloseCursor, CopyToStdout, DeclareCursor, Fetch, Subscribe
from streamtable.language.write import to_sql
from streamtable.observe.dependencies import DEPENDENCIES, dependency_rows
from streamtable.observe.results import Rows, columns
from streamtable.observe.status_rows import LISTED
from streamtable.refresh.choose import Action
from streamtable.refresh.history import history
from streamtable.refresh.run import Outcome, refresh
from streamtable.refresh.verify import Comparison, verify
from streamtable.schedule.cycle import together
from streamtable.schedule.failures import recorded
from streamtable.schedule.immediate import follow_fill
from streamtable.statements.atomic import atomically
from streamtable.statements.explain import explained, explained_create, explained_query
from streamtable.statements.queue import describe_queue, run_queue
from streamtable.statements.replication import describe_replication, run_replication
from streamtable.statements.scheduling import NOT_NOW, describe_scheduling, run_scheduling
from streamtable.statements.show import described, readable, shown, told
from streamtable.subscribing import cursors
from streamtable.subscribing.rows import LINES
from streamtable.subscribing.subscription import schema_of

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
_VERIFIED = columns(name=StringType, ok=BooleanType, missing=LongType, surplus=LongType)

RESULTS: dict[type, StructType] = {
    CreateStreamTable: _REFRESHED,
    RefreshStreamTable: _REFRESHED,
    RefreshStreamTables: _REFRESHED,
    AlterStreamTable: columns(name=StringType, status=StringType),
    DropStreamTable: columns(name=StringType, status=StringType),
    ShowStreamTables: LISTED,
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
    ShowDependencies: DEPENDENCIES,
    ExplainStreamTable: columns(operator=StringType, incremental=BooleanType, reason=StringType),
    ExplainCreate: columns(operator=StringType, incremental=BooleanType, reason=StringType),
    ExplainAlter: columns(operator=StringType, incremental=BooleanType, reason=StringType),
    VerifyStreamTable: _VERIFIED,
    VerifyStreamTables: _VERIFIED,
    CopyToStdout: columns(line=StringType),
    DeclareCursor: columns(cursor=StringType, status=StringType),
    CloseCursor: columns(cursor=StringType, status=StringType),
}


def describe(spark: SparkSession, statement: AnyStatement) -> StructType:
    """Return the columns of the statement's result."""
    match statement:
        case RefreshStreamTable(asynchronous=True) | RefreshStreamTables(asynchronous=True) | AlterScheduler():
            return describe_scheduling(statement)
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
    return atomically(spark, statement, _run)


def _run(spark: SparkSession, statement: AnyStatement) -> Rows | JavaRows:
    match statement:
        case CreateStreamTable():
            return [_refreshed(_created(spark, statement))]
        case RefreshStreamTable(asynchronous=True) | RefreshStreamTables(asynchronous=True) | AlterScheduler():
            return run_scheduling(spark, statement)
        case RefreshStreamTable((name,), full, False):
            entry = load(spark, name)
            with recorded(spark, entry.path):
                return [_refreshed(refresh(spark, entry, full))]
        case RefreshStreamTable(names, full, with_sources):
            return list(map(_refreshed, together(spark, [load(spark, name) for name in names], full, with_sources)))
        case RefreshStreamTables(namespace, like, full):
            tables, why = readable(spark, namespace, like)
            return [*map(_refreshed, _refresh_all(spark, tables, full)), *(_left_out(*each) for each in why.items())]
        case AlterStreamTable():
            altered = alter(spark, statement)
            return [(altered.name, altered.status)]
        case DropStreamTable():
            return [(each.name, _dropped(each.left)) for each in drop(spark, statement)]
        case ShowStreamTables(namespace, like):
            return shown(spark, namespace, like)
        case DescribeStreamTable(name, extended):
            return described(load(spark, name), extended)
        case ShowCreateStreamTable(name):
            return [(to_sql(load(spark, name).definition.statement),)]
        case ShowRefreshHistory(name, limit):
            lines = history(spark, [load(spark, name)] if name else entries(spark))
            return [told(line) for line in islice(lines, limit)]
        case ShowDependencies(name):
            return dependency_rows(spark, [load(spark, name)] if name else None)
        case ExplainStreamTable(name, delta):
            return explained(spark, load(spark, name), delta)
        case ExplainCreate(planned):
            return explained_create(spark, planned)
        case ExplainAlter(name, SetQuery(query)):
            return explained_query(spark, load(spark, name), query)
        case VerifyStreamTable(name):
            return [_verified(verify(spark, load(spark, name)))]
        case VerifyStreamTables(namespace, like):
            tables, why = readable(spark, namespace, like)
            verified = [_verdict(spark, each) for each in tables if each.state.frontier]
            return [*verified, *((name, False, None, None) for name in why)]
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
    return f"DROPPED; kept files that are not the table's: {', '.join(left)}" if left else "DROPPED"


def _refresh_all(spark: SparkSession, tables: list[Entry], full: bool) -> list[Outcome]:
    """Refresh all but those that are suspended, which are told."""
    done = together(spark, [each for each in tables if each.definition.status != SUSPENDED], full, with_sources=False)
    skipped = [each for each in tables if each.definition.status == SUSPENDED]
    return [*done, *(Outcome(each.definition.name, Action.SKIPPED, NOT_NOW, 0, 0, 0, each.state.version) for each in skipped)]


def _left_out(name: str, why: str) -> tuple[Any, ...]:
    return (name, Action.SKIPPED.value, why, 0, 0, 0, None)


def _verdict(spark: SparkSession, entry: Entry) -> tuple[Any, ...]:
    """Verify one of several tables: one that cannot be compared stops no other."""
    try:
        return _verified(verify(spark, entry))
    except (InvalidStatement, RefreshError, StorageFailed):
        return (entry.definition.name, False, None, None)


def _verified(verdict: Comparison) -> tuple[Any, ...]:
    return (verdict.name, verdict.ok, verdict.missing, verdict.surplus)


def _created(spark: SparkSession, statement: CreateStreamTable) -> Outcome:
    """Create the table, and let one that is IMMEDIATE have the writes that came while it was filled."""
    done = create(spark, statement)
    filled = done.action is not Action.NO_DATA  # else it was there, or has the contents that it had
    missed = follow_fill(spark, statement.name) if filled and isinstance(statement.schedule, Immediate) else []
    return replace(done, reason="; ".join([done.reason, *missed]))


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
