"""The table functions of publications, subscriptions and slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, LongType, StringType, StructType, TimestampType

from streamtable.catalog import objects
from streamtable.catalog.kinds import PUBLICATION, SLOT, SUBSCRIPTION, CatalogObject, Kind
from streamtable.engine import clock
from streamtable.language.parse import parse_name
from streamtable.observe.health import Health, SourceState, slot_health
from streamtable.observe.results import Row, Rows, columns
from streamtable.replication import slots
from streamtable.replication.publications import definition, published
from streamtable.replication.publisher import Schema
from streamtable.replication.subscriptions import SubscribedTable, Subscription, slots_in_sight, slots_in_use

__all__ = ["SLOT_STATUS", "VIEWS"]

Made = TypeVar("Made")

SLOT_STATUS = ("reserved", "extended", "unreserved", "lost")
"""Whether the changes that a slot still needs are kept: for long, for a while, until a clean-up, or no longer."""


def _stored(spark: SparkSession, kind: Kind, name: str | None, of: Callable[[CatalogObject], Made]) -> Iterator[Made]:
    """Yield the result of `of` for the object of a name, or for all readable objects."""
    if name is None:
        yield from objects.every_as(spark, kind, of)
    else:
        yield of(objects.load(spark, kind, parse_name(name)))


def _publications(spark: SparkSession, name: str | None) -> Rows:
    return list(_stored(spark, PUBLICATION, name, partial(_publication, spark)))


def _publication(spark: SparkSession, stored: CatalogObject) -> Row:
    said = definition(stored)
    tables = sorted(".".join(table.name) for table in published(spark, stored, Schema(stored.name[:-1])))
    return str(stored), said.objects.all_tables, ", ".join(tables), ", ".join(said.publish), stored.content["sql"]


def _subscriptions(spark: SparkSession, name: str | None) -> Rows:
    return [
        (str(s), s.enabled, s.connection, ", ".join(s.publications), s.slot, s.disable_on_error, s.origin)
        for s in _stored(spark, SUBSCRIPTION, name, Subscription.of)
    ]


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _relations(spark: SparkSession, name: str | None) -> Iterator[tuple[Subscription, SubscribedTable]]:
    for subscription in _stored(spark, SUBSCRIPTION, name, Subscription.of):
        for _, relation in sorted(subscription.relations.items()):
            yield subscription, relation


def _subscription_tables(spark: SparkSession, name: str | None) -> Rows:
    return [
        (
            str(of),
            each.table,
            each.state,
            each.position,
            each.stopped_at,
            each.skip,
            each.error,
            _at(each.changed_at),
        )
        for of, each in _relations(spark, name)
    ]


def _subscription_stats(spark: SparkSession, name: str | None) -> Rows:
    return [
        (str(of), each.table, *(getattr(each, counter) for counter in _COUNTERS), each.stats_reset and _at(each.stats_reset))
        for of, each in _relations(spark, name)
    ]


_COUNTERS = (
    "inserts",
    "updates",
    "deletes",
    "insert_exists",
    "update_missing",
    "delete_missing",
    "update_origin_differs",
    "delete_origin_differs",
    "apply_errors",
    "sync_errors",
)


def _replication_slots(spark: SparkSession, name: str | None) -> Rows:
    found = slots_in_sight(spark, asking=True) if name is None else [objects.load(spark, SLOT, parse_name(name))]
    since = {(str(slot), each.table): _at(each.confirmed_at) for slot in found for each in slots.positions(slot).values()}
    now, used = clock.now(), {".".join(name) for name in slots_in_use(spark)}
    return [_slot(each, each.name in used, since[each.name, each.source], now) for each in slot_health(spark, found)]


def _slot(health: Health, active: bool, since: datetime, now: datetime) -> Row:
    confirmed, latest = health.read, health.latest
    assert confirmed is not None, "a slot has a position for each of its tables"
    lag = None if latest is None else max(latest - confirmed, 0)
    status = _status(health, now)
    return (
        health.name,
        health.source,
        active,
        confirmed + 1,
        confirmed,
        lag,
        status,
        None if active else since,
        health.history_until,
        health.warning if status == "lost" else None,
        health.warning,
    )


def _status(health: Health, now: datetime) -> str:
    if health.state is SourceState.OK:
        return "reserved"
    if health.state is SourceState.EXPIRING and health.history_until is not None:
        return "extended" if now < health.history_until else "unreserved"
    return "lost"


VIEWS: Mapping[str, tuple[StructType, Callable[[SparkSession, str | None], Rows], str]] = {
    "publications": (
        columns(name=StringType, all_tables=BooleanType, tables=StringType, publish=StringType, statement=StringType),
        _publications,
        "publication",
    ),
    "subscriptions": (
        columns(
            name=StringType,
            enabled=BooleanType,
            connection=StringType,
            publications=StringType,
            slot_name=StringType,
            disable_on_error=BooleanType,
            origin=StringType,
        ),
        _subscriptions,
        "subscription",
    ),
    "subscription_tables": (
        columns(
            subscription=StringType,
            table=StringType,
            state=StringType,
            position=LongType,
            stopped_at=LongType,
            skip=LongType,
            error=StringType,
            changed_at=TimestampType,
        ),
        _subscription_tables,
        "table of a subscription",
    ),
    "subscription_stats": (
        columns(subscription=StringType, table=StringType, **dict.fromkeys(_COUNTERS, LongType), stats_reset=TimestampType),
        _subscription_stats,
        "table of a subscription",
    ),
    "replication_slots": (
        columns(
            slot=StringType,
            table=StringType,
            active=BooleanType,
            restart_version=LongType,
            confirmed_version=LongType,
            lag=LongType,
            status=StringType,
            inactive_since=TimestampType,
            history_until=TimestampType,
            invalidation_reason=StringType,
            warning=StringType,
        ),
        _replication_slots,
        "table of a replication slot",
    ),
}
"""The table functions: their columns, and what gives their rows."""
