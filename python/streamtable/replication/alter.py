"""CREATE, ALTER and DROP SUBSCRIPTION, CREATE and DROP REPLICATION SLOT."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.halves import Kind
from streamtable.catalog.intents import intended
from streamtable.catalog.kinds import PUBLICATION, SLOT, SUBSCRIPTION, CatalogObject
from streamtable.delta.tables import applications, state
from streamtable.errors import InvalidStatement, NotEnabled, ReplicationObjectNotFound
from streamtable.language.replication.ast import (
    AlterSubscription,
    CreateReplicationSlot,
    CreateSubscription,
    Disable,
    DropReplicationSlot,
    DropSubscription,
    Enable,
    RefreshPublication,
    ResetStatistics,
    SetConnection,
    SetOptions,
    SetPublications,
    Skip,
)
from streamtable.language.stream_table.ast import AcceptDefinition, Rename
from streamtable.replication import slots
from streamtable.replication.apply import AppliedTable
from streamtable.replication.publications import Published, published
from streamtable.replication.publisher import Publisher, Schema, publisher_of
from streamtable.replication.run import published_to
from streamtable.replication.source import source_of
from streamtable.replication.subscriptions import APPLICATIONS, SubscribedTable, Subscription, slots_in_use
from streamtable.sql.literals import quote_string

__all__ = ["alter", "create", "create_slot", "drop", "drop_slot"]

_log = logging.getLogger(__name__)


def create(spark: SparkSession, statement: CreateSubscription) -> Subscription:
    """Make a subscription and, unless told otherwise, its slot. The first APPLY copies the contents of its tables."""
    said = dict(statement.options)
    connect = said.get("connect", "true") == "true"
    slot = said.get("slot_name", statement.name.parts[-1])
    located = objects.free(spark, SUBSCRIPTION, statement.name)
    publisher = publisher_of(statement.connection, located.name[0])  # what is wrong with it is told before anything is made
    making = connect and said.get("create_slot", "true") == "true"
    if slot != "none" and not making:  # one that is made is nobody's, and to look through all subscriptions takes long
        _check_slot(spark, publisher, slot)
    subscription = Subscription.planned(
        spark,
        located.name,
        connection=statement.connection,
        publications=list(statement.publications),
        enabled=connect and said.get("enabled", "true") == "true",
        slot=None if slot == "none" else slot,
        disable_on_error=said.get("disable_on_error") == "true",
        origin=said.get("origin", "any"),
    )
    if not connect:
        _log.warning("%s is not connected: create its slot, ENABLE it and REFRESH PUBLICATION", subscription)
        return Subscription.of(objects.create(spark, SUBSCRIPTION, statement.name, subscription.content))
    tables = _checked(spark, subscription)
    every = [each for several in tables.values() for each in several]
    begun = slots.begun(spark, every) if subscription.slot is not None and making else None
    relations = _relations(spark, subscription, tables, begun, copy=said.get("copy_data", "true") == "true")
    content = {**subscription.content, "tables": [asdict(each) for each in relations.values()]}
    parts = {SUBSCRIPTION: objects.part_of(spark, SUBSCRIPTION, statement.name, content)}
    if begun is not None:
        parts[SLOT] = objects.part_of(spark, SLOT, subscription.slot_name(), slots.content(begun))
    with intended(spark, Kind.CREATE, *parts.values()):
        for kind, part in reversed(parts.items()):
            objects.make(spark, kind, part)
    if SLOT in parts:
        objects.renew_token(spark, SLOT, parts[SLOT])
    return Subscription.load(spark, statement.name)


def alter(spark: SparkSession, statement: AlterSubscription) -> CatalogObject:
    """Change a subscription, and return it."""
    if isinstance(statement.action, AcceptDefinition):
        return objects.accept_definition(spark, SUBSCRIPTION, statement.name)
    subscription = Subscription.load(spark, statement.name)
    match statement.action:
        case Rename(to):
            return objects.rename(spark, subscription.stored, to)
        case SetConnection(connection):
            publisher = publisher_of(connection, subscription.stored.name[0])
            if subscription.slot is not None:
                _check_slot(spark, publisher, subscription.slot, subscription)
            subscription.change(spark, connection=connection)
        case Enable():
            subscription.slot_name()
            _check_slot(spark, subscription.publisher, subscription.slot, subscription, active=True)
            subscription.change(spark, enabled=True)
        case Disable():
            subscription.change(spark, enabled=False)
        case SetOptions(options):
            _set(spark, subscription, dict(options))
        case Skip(version, table):
            _skip(spark, subscription, version, table)
        case RefreshPublication(options):
            if (relations := _refreshed(spark, subscription, dict(options))) != subscription.relations:
                subscription.change(spark, relations.values())
        case ResetStatistics():
            subscription.change(spark, [each.with_counters_reset() for each in subscription.tables])
        case SetPublications(how, names, options):
            said, after = dict(options), replace(subscription, publications=_publications(subscription, how, names))
            refreshing = said.get("refresh", "true") == "true"
            relations = _refreshed(spark, after, said) if refreshing else after.relations
            subscription = subscription.change(spark, relations.values(), publications=after.publications)
    return subscription.stored


def drop(spark: SparkSession, statement: DropSubscription) -> CatalogObject | None:
    """Drop a subscription and its slot. Returns None for a missing subscription and IF EXISTS."""
    stored = objects.wanted(spark, SUBSCRIPTION, statement.name, statement.if_exists)
    if stored is None:
        return None
    subscription = Subscription.of(stored)
    if subscription.slot is not None:
        hint = "DISABLE it, SET (slot_name = NONE), and drop it then"
        if not subscription.enabled:
            _check_slot(spark, subscription.publisher, subscription.slot, subscription, active=True)
        try:
            slot = objects.find(spark, SLOT, subscription.slot_name())
        except NotEnabled as error:
            message = f"{subscription} has the slot {subscription.slot}, which cannot be dropped now: {error.reason}"
            raise NotEnabled(message, hint=hint) from error
        if slot is None:
            raise ReplicationObjectNotFound(f"{subscription} has the slot {subscription.slot}, which is not there", hint=hint)
        objects.drop(spark, stored, slot)
    else:
        objects.drop(spark, stored)
    return stored


def create_slot(spark: SparkSession, statement: CreateReplicationSlot) -> CatalogObject:
    """Make a slot for the tables of some publications of its schema."""
    publisher = Schema(objects.free(spark, SLOT, statement.name).name[:-1])
    stored = [objects.load(spark, PUBLICATION, publisher.name(each)) for each in statement.publications]
    return slots.create(spark, statement.name, [table for each in stored for table in published(spark, each, publisher)])


def drop_slot(spark: SparkSession, statement: DropReplicationSlot) -> CatalogObject | None:
    """Drop a slot that no visible subscription uses."""
    slot = objects.wanted(spark, SLOT, statement.name, statement.if_exists)
    if slot is None:
        return None
    if user := slots_in_use(spark).get(slot.name):
        hint = "DROP SUBSCRIPTION, or DISABLE it first"
        raise InvalidStatement(f"the slot {slot} is that of the subscription {user}", hint=hint)
    objects.drop(spark, slot)
    return slot


def _check_slot(
    spark: SparkSession, publisher: Publisher, slot: str | None, user: Subscription | None = None, active: bool = False
) -> None:
    """Refuse a slot that another visible subscription has, or follows if `active`: each would lose changes of the other."""
    for each in objects.every_as(spark, SUBSCRIPTION, Subscription.of):
        if (user is None or each.id != user.id) and each.has_slot(publisher, slot) and (each.enabled or not active):
            hint = "name another slot, or NONE: slot_name = ..."
            raise InvalidStatement(f"the slot {slot} is that of the subscription {each}", hint=hint)


def _checked(spark: SparkSession, subscription: Subscription) -> Mapping[str, list[Published]]:
    """Return the published tables. Raises errors for tables that do not fit."""
    tables = published_to(spark, subscription)
    for name, several in tables.items():
        source_of(spark, several)
        subscription.target(spark, name)
    return tables


def _relations(
    spark: SparkSession,
    subscription: Subscription,
    tables: Mapping[str, list[Published]],
    begun: Mapping[str, slots.Position] | None,
    copy: bool,
) -> dict[str, SubscribedTable]:
    """Add tables that are published now, restart tables whose history is lost, and remove tables that are not published.

    `begun` are the positions of a slot that is not made yet; None stands for the existing slot, if there is one.
    """
    known = subscription.relations
    if begun is None and subscription.slot is not None and (slot := objects.find(spark, SLOT, subscription.slot_name())):
        every = [each for several in tables.values() for each in several]
        # Tables that leave stay in the slot until the next APPLY: the subscription follows them until its own commit.
        begun = slots.positions(slots.advance(spark, slot, every, {}, {each.source_id for each in known.values()}))
    after, mixed = dict[str, SubscribedTable](), list[str]()
    for name, several in tables.items():
        source, target, relation = source_of(spark, several), subscription.target(spark, name), known.get(name)
        table = AppliedTable(spark, source, target, relation, foreign_only=False) if relation else None
        if relation is None or (table and table.is_lost()):
            if table and copy:
                table.refuse_rows()
            start = begun[source.name].confirmed if begun is not None and relation is None else source.version
            target_id = state(spark, target.path).table_id
            relation = SubscribedTable.new(name, source.table_id, target_id, None if copy else start)
            written_by = applications(spark, source.path) if copy and subscription.origin == "none" else ()
            mixed += [source.name] if any(each.startswith(APPLICATIONS) for each in written_by) else []
        after[name] = relation
    if mixed:
        text = (
            "the copy brings rows that other subscriptions wrote to %s, in spite of origin = none of %s; copy_data = false does not"
        )
        _log.warning(text, ", ".join(mixed), subscription)
    return after


def _refreshed(spark: SparkSession, subscription: Subscription, said: Mapping[str, str]) -> Mapping[str, SubscribedTable]:
    """Return the tables as the publications have them now. Raises InvalidStatement for a subscription that is disabled."""
    if not subscription.enabled:
        message = f"REFRESH PUBLICATION is not allowed while the subscription {subscription} is disabled"
        raise InvalidStatement(message, hint="ALTER SUBSCRIPTION ... ENABLE, or say WITH (refresh = false)")
    copy = said.get("copy_data", "true") == "true"
    return _relations(spark, subscription, _checked(spark, subscription), None, copy)


def _publications(subscription: Subscription, how: str, names: tuple[str, ...]) -> tuple[str, ...]:
    known = subscription.publications
    if how == "SET":
        return names
    wrong = [name for name in names if (name in known) == (how == "ADD")]
    if wrong:
        there = "already" if how == "ADD" else "not"
        raise InvalidStatement(
            f"the publication {wrong[0]} is {there} in the subscription {subscription}", hint="SELECT * FROM subscriptions()"
        )
    after = (*known, *names) if how == "ADD" else tuple(name for name in known if name not in names)
    if not after:
        raise InvalidStatement(f"{subscription} cannot be left without a publication", hint="DROP SUBSCRIPTION, or SET PUBLICATION")
    return after


def _set(spark: SparkSession, subscription: Subscription, said: Mapping[str, str]) -> None:
    content: dict[str, Any] = {key: said[key] for key in ("origin",) if key in said}
    if "disable_on_error" in said:
        content["disable_on_error"] = said["disable_on_error"] == "true"
    if "slot_name" in said:
        content["slot"] = None if said["slot_name"] == "none" else said["slot_name"]
        if subscription.enabled and content["slot"] is None:
            hint = "ALTER SUBSCRIPTION ... DISABLE"
            raise InvalidStatement(f"{subscription} cannot be left without a slot while it is enabled", hint=hint)
        if content["slot"] is not None:
            _check_slot(spark, subscription.publisher, content["slot"], subscription)
    subscription.change(spark, **content)


def _skip(spark: SparkSession, subscription: Subscription, version: int | None, table: str | None) -> None:
    relations = subscription.relations
    named = {name: each for name, each in relations.items() if table is None or name.casefold() == table.casefold()}
    stopped = {name: each for name, each in named.items() if version is None or each.stopped_at == version}
    if not stopped:
        places = sorted(f"{each.table} at {each.stopped_at}" for each in relations.values() if each.stopped_at is not None)
        what = f"stopped: {', '.join(places)}" if places else "nothing stopped"
        hint = "SELECT * FROM subscription_tables() tells where a table stopped"
        who = "no table" if table is None else f"no table {table}"
        raise InvalidStatement(f"{who} of {subscription} stopped at {version} ({what})", hint=hint)
    if version is not None and len(stopped) > 1:  # versions are those of each table: these are several commits
        message = f"several tables of {subscription} stopped at their version {version}: {', '.join(sorted(stopped))}"
        hint = f"name one: ALTER SUBSCRIPTION ... SKIP (lsn = {version}, table = {quote_string(min(stopped))})"
        raise InvalidStatement(message, hint=hint)
    subscription.change(spark, {**relations, **{n: replace(each, skip=version) for n, each in stopped.items()}}.values())
