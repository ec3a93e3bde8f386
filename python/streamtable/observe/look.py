"""Make a status from the catalog and the logs, without a Spark job for tables that did not change since the last status."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import suppress

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.entries import Entry, listed, readable, unreadable
from streamtable.catalog.kinds import PUBLICATION, SUBSCRIPTION, CatalogObject
from streamtable.delta.tables import TableState, size
from streamtable.engine import clock
from streamtable.errors import StreamTableError
from streamtable.language.names import Name
from streamtable.language.write import to_sql
from streamtable.observe.alerts import alerts
from streamtable.observe.expectations import counts_of
from streamtable.observe.freshness import Freshness, freshness
from streamtable.observe.health import Health, health
from streamtable.observe.status import (
    FAILED,
    Column,
    Expected,
    PublicationStatus,
    QueueStatus,
    Status,
    SubscribedRow,
    SubscriptionStatus,
    TableStatus,
)
from streamtable.queue import consumers
from streamtable.queue.definition import Queue, queues
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.history import Line, errors_in_a_row, history
from streamtable.replication.publications import published
from streamtable.replication.publisher import Schema
from streamtable.replication.subscriptions import Subscription, slots_in_sight
from streamtable.schedule.switch import switch
from streamtable.settings.session import shown_settings

__all__ = ["REFRESHES", "look", "table_status"]

REFRESHES = 200
"""The number of lines of each table's history in a status."""


def look(spark: SparkSession, before: Status | None = None) -> Status:
    """Return the status of everything in the session's catalog. Unchanged versions are taken from the status `before`."""
    every = list(listed(spark))
    found, unread = readable(every), unreadable(every)
    fresh = freshness(spark, found)
    healths = health(spark, found)
    names = {entry.name for entry in found}
    known = {(each.path, each.table_id, each.version): each for each in (before.tables if before else ())}

    def table(entry: Entry) -> TableStatus:
        same = known.get((entry.path, entry.state.table_id, entry.state.version))
        return table_status(spark, entry, fresh[entry.path], healths, same, REFRESHES)

    return Status(
        clock.now(),
        tuple(table(entry) for entry in found),
        tuple(_queue(spark, each, healths) for each in queues(spark, None, names)),
        tuple(_publications(spark, names)),
        tuple(objects.every_as(spark, SUBSCRIPTION, _subscription, None, names)),
        _slots(spark, healths, names),
        tuple(alerts(spark, found, fresh, healths, unread)),
        shown_settings(spark),
        switch(spark).suspended_since,
        dict(unread),
    )


def table_status(
    spark: SparkSession,
    entry: Entry,
    fresh: Freshness,
    healths: Sequence[Health] = (),
    same: TableStatus | None = None,
    lines: int = 1,
) -> TableStatus:
    """Return the status of one table, with so many lines of its history at least; `same` is what was known of the same version."""
    definition, state, frontier = entry.definition, entry.state, Frontier.of(entry.state.frontier)
    past = same.history if same else _recent(history(spark, [entry]), lines)
    return TableStatus(
        entry.name,
        entry.path,
        state.table_id,
        state.version,
        definition.status,
        definition.statement.mode.value,
        definition.statement.schedule.sql(),
        to_sql(definition.statement),
        definition.statement.comment,
        same.columns if same else _columns(state),
        same.size if same else size(spark, entry.path, state.version),
        fresh,
        definition.error,
        past,
        tuple(each for each in healths if each.name == definition.name),
        frontier.runs if frontier else (),
        frontier.action if frontier else None,
        frontier.at if frontier else None,
        definition.resumed.version if definition.resumed else -1,
        errors_in_a_row(entry, past),
        tuple(Expected(each.name, each.condition.text, each.violation.value, *counts) for each, *counts in counts_of(entry)),
    )


def _columns(state: TableState) -> tuple[Column, ...]:
    return tuple(Column(each.name, each.dataType.simpleString(), (each.metadata or {}).get("comment")) for each in state.schema)


def _recent(lines: Iterator[Line], most: int) -> tuple[Line, ...]:
    """Return the latest lines: `most`, and as many more as it takes to the last success."""
    kept, succeeded = list[Line](), False
    for line in lines:
        kept.append(line)
        succeeded = succeeded or line.record.action not in FAILED
        if succeeded and len(kept) >= most:
            break
    return tuple(kept)


def _queue(spark: SparkSession, queue: Queue, healths: Sequence[Health]) -> QueueStatus:
    name = str(queue)
    mine = tuple(each for each in healths if each.name == name or each.name.startswith(f"{name}: "))
    relation = queue.subscribe.relation
    # What a query reads is known from its consumers. A free-standing queue holds its events itself.
    inputs = {".".join(relation.parts)} if isinstance(relation, Name) else {each.source for each in mine if each.name != name}
    return QueueStatus(
        queue.stored.name,
        to_sql(queue.statement),
        tuple(sorted(inputs - {name})),
        tuple(consumers.of(spark, queue)),
        mine,
    )


def _publications(spark: SparkSession, besides: Container[Sequence[str]]) -> Iterator[PublicationStatus]:
    for stored in objects.every(spark, PUBLICATION, None, besides):
        tables = list[str]()
        with suppress(StreamTableError):  # one whose tables cannot be told is shown without them
            tables = sorted(".".join(each.name) for each in published(spark, stored, Schema(stored.name[:-1])))
        yield PublicationStatus(stored.name, str(stored.content["sql"]), tuple(tables))


def _subscription(stored: CatalogObject) -> SubscriptionStatus:
    found = Subscription.of(stored)
    with suppress(StreamTableError):
        publisher = found.publisher
        names = (publisher.name(each) for each in found.publications) if isinstance(publisher, Schema) else ()
        return _subscribed(found, tuple(".".join(each.parts) for each in names))
    return _subscribed(found, ())


def _subscribed(found: Subscription, publications: tuple[str, ...]) -> SubscriptionStatus:
    rows = (
        SubscribedRow(
            ".".join((*found.namespace, each.table)),
            each.state,
            each.position,
            each.error,
            each.inserts + each.updates + each.deletes,
        )
        for _, each in sorted(found.relations.items())
    )
    return SubscriptionStatus(found.stored.name, found.connection, found.enabled, publications, tuple(rows))


def _slots(spark: SparkSession, healths: Sequence[Health], besides: Container[Sequence[str]]) -> tuple[Health, ...]:
    names = {str(each) for each in slots_in_sight(spark, besides, asking=False)}
    return tuple(each for each in healths if each.name in names)
