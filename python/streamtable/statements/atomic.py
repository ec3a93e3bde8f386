"""CREATE, DROP and RENAME as atomic statements. Each first settles the remains of killed ones, so that a repetition succeeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtable.catalog.entries import CATALOG, load
from streamtable.catalog.intents import carrying_out
from streamtable.definitions.create import CREATED, CREATED_EMPTY
from streamtable.definitions.settle import Settled, settle_everywhere, settle_schema
from streamtable.delta.tables import find_table
from streamtable.errors import InvalidStatement, QueueNotFound, ReplicationObjectNotFound, SourceUnavailable, StreamTableNotFound
from streamtable.jvm.gateway import JavaRows
from streamtable.jvm.handles import namespace_of
from streamtable.language.names import Name
from streamtable.language.parse import AnyStatement
from streamtable.language.queue.ast import CreateQueue, DropQueue
from streamtable.language.replication.ast import (
    AlterPublication,
    AlterSubscription,
    CreatePublication,
    CreateReplicationSlot,
    CreateSubscription,
    DropPublication,
    DropReplicationSlot,
    DropSubscription,
)
from streamtable.language.stream_table.ast import AlterStreamTable, CreateStreamTable, DropStreamTable, Rename
from streamtable.language.write import to_sql
from streamtable.observe.results import Rows
from streamtable.refresh.choose import Action
from streamtable.refresh.history import history

__all__ = ["atomically"]

_Made: TypeAlias = CreateStreamTable | CreateQueue | CreatePublication | CreateSubscription | CreateReplicationSlot
_Dropped: TypeAlias = DropStreamTable | DropQueue | DropPublication | DropSubscription | DropReplicationSlot
_Altered: TypeAlias = AlterStreamTable | AlterPublication | AlterSubscription

_NOT_FOUND = (StreamTableNotFound, QueueNotFound, ReplicationObjectNotFound, SourceUnavailable)

Run: TypeAlias = Callable[[SparkSession, AnyStatement], Rows | JavaRows]


def atomically(spark: SparkSession, statement: AnyStatement, run: Run) -> Rows | JavaRows:
    """Carry a statement out by `run`, after settling half-done ones. Reads and refreshes settle only if a name is missing."""
    if not isinstance(statement, _Made | _Dropped | _Altered):
        try:
            return run(spark, statement)
        except _NOT_FOUND:
            if not list(settle_everywhere(spark)):
                raise
        return run(spark, statement)
    names = statement.names if isinstance(statement, DropPublication) else (statement.name,)
    every = [find_table(spark, each.parts).name for each in names]
    name = every[0]
    text = f"{'.'.join(namespace_of(spark))}: {to_sql(statement)}"
    settled = [settled for each in every for settled in _settled(spark, each, isinstance(statement, _Dropped))]
    with carrying_out(text):
        try:
            return run(spark, statement)
        except InvalidStatement:
            # The same statement was killed after its last effect, before its answer.
            if any(each.done and each.intent.statement == text and each.intent.parts[0].name == name for each in settled):
                return [row for each in every for row in _answer(spark, statement, each)]
            raise


def _settled(spark: SparkSession, name: tuple[str, ...], drops: bool) -> Iterator[Settled]:
    if name[0] == CATALOG:
        with suppress(AnalysisException):  # there is no such schema, which the statement tells
            yield from settle_schema(spark, name, drops=drops)


def _answer(spark: SparkSession, statement: _Made | _Dropped | _Altered, name: tuple[str, ...]) -> Rows:
    """Return the answer of a statement whose process was killed after its last effect."""
    match statement:
        case CreateStreamTable():
            entry = load(spark, Name(name))
            first = next((each for each in history(spark, [entry]) if each.record.action is Action.REINITIALIZE), None)
            if first is None:
                return [(entry.definition.name, Action.NO_DATA.value, CREATED_EMPTY, 0, 0, 0, entry.state.version)]
            told = first.record
            rows = (told.rows_inserted, told.rows_deleted, told.duration_ms, first.version)
            return [(entry.definition.name, told.action.value, CREATED, *rows)]
        case AlterStreamTable(_, Rename(to)):
            entry = load(spark, Name((*name[:-1], to.parts[-1])))
            return [(entry.definition.name, entry.definition.status)]
        case AlterPublication() | AlterSubscription():
            to = statement.action.to if isinstance(statement.action, Rename) else Name(name)
            return [(".".join((*name[:-1], to.parts[-1])), "ALTERED")]
        case _:
            return [(".".join(name), "CREATED" if isinstance(statement, _Made) else "DROPPED")]
