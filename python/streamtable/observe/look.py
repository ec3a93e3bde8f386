"""Make a status from the catalog and the logs, without a Spark job for tables that did not change since the last status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.entries import Entry, entries
from streamtable.catalog.kinds import CatalogObject
from streamtable.delta.tables import Size, size
from streamtable.engine import clock
from streamtable.errors import StreamTableError
from streamtable.language.names import Name
from streamtable.language.write import to_sql
from streamtable.observe.alerts import alerts
from streamtable.observe.freshness import Freshness, freshness
from streamtable.observe.health import Health, health
from streamtable.observe.status import (
    Column,
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
from streamtable.refresh.history import Line, history
from streamtable.replication.kinds import PUBLICATION, SUBSCRIPTION
from streamtable.replication.publications import published
from streamtable.replication.publisher import Schema
from streamtable.replication.subscriptions import Subscription, slots_in_sight
from streamtable.settings.session import SETTINGS, read_setting

__all__ = ["REFRESHES", "look"]

REFRESHES = 200
"""The number of lines of each table's history in a status."""


def look(spark: SparkSession, before: Status | None = None) -> Status:
    """Return the status of everything in the session's catalog. Unchanged versions are taken from the status `before`."""
    found = list(entries(spark))
    fresh = freshness(spark, found)
    healths = health(spark, found)
    known = {(each.path, each.table_id, each.version): each for each in (before.tables if before else ())}

    def table(entry: Entry) -> TableStatus:
        same = known.get((entry.path, entry.state.table_id, entry.state.version))
        return _table(spark, entry, fresh[entry.path], healths, same)

    return Status(
        clock.now(),
        tuple(table(entry) for entry in found),
        tuple(_queue(spark, each, healths) for each in queues(spark)),
        tuple(_publications(spark)),
        tuple(objects.every_as(spark, SUBSCRIPTION, _subscription)),
        _slots(spark, healths),
        tuple(alerts(spark, found, fresh, healths)),
        tuple((each.key, str(read_setting(spark, each)), each.doc) for each in SETTINGS),
    )


def _table(spark: SparkSession, entry: Entry, fresh: Freshness, healths: Sequence[Health], same: TableStatus | None) -> TableStatus:
    definition, state = entry.definition, entry.state
    lines: tuple[Line, ...] = same.history if same else tuple(islice(history(spark, [entry]), REFRESHES))
    counted: Size | None = same.size if same else size(spark, entry.path, state.version)
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
        tuple(Column(each.name, each.dataType.simpleString(), (each.metadata or {}).get("comment")) for each in state.schema),
        counted,
        fresh,
        definition.error,
        lines,
        tuple(each for each in healths if each.name == definition.name),
        frontier.runs if (frontier := Frontier.of(state.frontier)) else (),
    )


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


def _publications(spark: SparkSession) -> Iterator[PublicationStatus]:
    for stored in objects.every(spark, PUBLICATION):
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


def _slots(spark: SparkSession, healths: Sequence[Health]) -> tuple[Health, ...]:
    names = {str(each) for each in slots_in_sight(spark)}
    return tuple(each for each in healths if each.name in names)
