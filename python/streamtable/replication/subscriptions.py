"""Subscriptions: their publications, and the progress of each of their tables."""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from functools import cached_property
from typing import Any

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.entries import find
from streamtable.catalog.kinds import SLOT, SUBSCRIPTION, CatalogObject, unreadable
from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.tables import Located
from streamtable.delta.unreadable import left_out
from streamtable.engine import clock
from streamtable.errors import DirectWriteRefused, InvalidStatement, NotEnabled
from streamtable.language.names import Name
from streamtable.replication.publisher import Publisher, publisher_of, same
from streamtable.sessions.captured import captured_settings

__all__ = ["SubscribedTable", "Subscription", "SyncState", "slots_in_sight", "slots_in_use"]


class SyncState(str, Enum):
    """The progress of a table; people see the value."""

    INIT = "init"
    DATA_COPY = "data copy"
    FINISHED_COPY = "finished copy"
    SYNCED = "synced"
    READY = "ready"


@dataclass(frozen=True)
class SubscribedTable:
    """One table of the publisher's schema, and of ours; `changed_at` is an ISO time.

    `position` is the version up to which it is applied, unless the subscriber's table itself records a later one. `written` is what
    the table recorded at the last look, None before the first rows and for relations of earlier releases: a table that records less
    is an older copy. `stopped_at` is the version that could not be applied, `skip` the version to leave out. `target_id` is the id
    of the subscriber's table at the last write, None for relations of earlier releases. `stats_reset` is the start of the counters.
    `commit` tells the commit of `position` from another one of its number, where it is known. `seen` is a version of the
    subscriber's table: what was restored after it may lack rows that were applied.
    """

    table: str
    id: str
    source_id: str
    state: str
    position: int | None
    stopped_at: int | None
    skip: int | None
    error: str | None
    changed_at: str
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    insert_exists: int = 0
    update_missing: int = 0
    delete_missing: int = 0
    update_origin_differs: int = 0
    delete_origin_differs: int = 0
    apply_errors: int = 0
    sync_errors: int = 0
    target_id: str | None = None
    stats_reset: str | None = None
    commit: str | None = None
    written: int | None = None
    seen: int | None = None

    def with_counters_reset(self) -> SubscribedTable:
        """Return the relation with all counters at zero."""
        counters: dict[str, Any] = {each.name: 0 for each in fields(self) if each.default == 0}
        return replace(self, **counters, stats_reset=clock.now().isoformat())

    @classmethod
    def new(cls, table: str, source_id: str, target_id: str, position: int | None) -> SubscribedTable:
        """Return the start of a table: with its rows, or with the changes after a position."""
        state = SyncState.INIT if position is None else SyncState.READY
        at = clock.now().isoformat()
        return cls(table, uuid.uuid4().hex, source_id, state.value, position, None, None, None, at, target_id=target_id)

    @property
    def application(self) -> str:
        """Name the table's subscription in the commits of the subscriber's table."""
        return f"{APPLICATIONS}{self.id}"


APPLICATIONS = "streamtable.subscription."
"""The prefix of the names under which subscriptions write."""


@dataclass(frozen=True)
class Subscription:
    """The definition by CREATE and ALTER SUBSCRIPTION. `slot` is None without a slot."""

    stored: CatalogObject
    connection: str
    publications: tuple[str, ...]
    enabled: bool
    slot: str | None
    disable_on_error: bool
    origin: str
    id: str
    settings: Mapping[str, str]
    tables: tuple[SubscribedTable, ...]

    def __str__(self) -> str:
        return str(self.stored)

    @classmethod
    def of(cls, stored: CatalogObject) -> Subscription:
        """Read it from its table."""
        known = dict(stored.content)
        try:
            tables = tuple(restored(SubscribedTable, each) for each in known["tables"])
            return cls(stored, **{**known, "publications": tuple(known["publications"]), "tables": tables})
        except UNREADABLE as error:
            raise unreadable(stored, error) from error

    @classmethod
    def planned(cls, spark: SparkSession, name: Sequence[str], **said: Any) -> Subscription:
        """Return the subscription of a statement, before anything is made."""
        content = {**said, "id": uuid.uuid4().hex, "settings": captured_settings(spark), "tables": []}
        return cls.of(CatalogObject(SUBSCRIPTION, tuple(name), "", -1, content))

    @classmethod
    def load(cls, spark: SparkSession, name: Name) -> Subscription:
        """Return the subscription of a name. Raises ReplicationObjectNotFound, with near names."""
        return cls.of(objects.load(spark, SUBSCRIPTION, name))

    @property
    def namespace(self) -> tuple[str, ...]:
        """Return the schema that it is in, which is that of the subscriber's tables."""
        return self.stored.name[:-1]

    @cached_property
    def publisher(self) -> Publisher:
        """Return the publisher, which has its publications and its slot."""
        return publisher_of(self.connection, self.stored.name[0])

    @cached_property
    def content(self) -> dict[str, Any]:
        """Return its table's property."""
        return {key: value for key, value in asdict(self).items() if key != "stored"}

    @property
    def relations(self) -> dict[str, SubscribedTable]:
        """Return the tables by name."""
        return {each.table: each for each in self.tables}

    def change(self, spark: SparkSession, relations: Iterable[SubscribedTable] | None = None, **said: Any) -> Subscription:
        """Change definition, relations, or both, in one commit. Raises ConcurrentRefresh if another process did so since."""
        content = {**self.content, **said}
        if relations is not None:
            content["tables"] = [asdict(each) for each in relations]
        return Subscription.of(objects.change(spark, self.stored, content))

    def target(self, spark: SparkSession, table: str) -> Located:
        """Return the subscriber's table. Raises InvalidStatement when there is none, DirectWriteRefused for a stream table."""
        located, stream_table = find(spark, Name((*self.namespace, table)))
        if located.kind != "delta":
            hint = "create it with the columns of the publisher's, or take it out of the publication"
            raise InvalidStatement(f"the subscription {self} needs the Delta table {'.'.join(located.name)}", hint=hint)
        if stream_table:
            message = f"the subscription {self} cannot write to {'.'.join(located.name)}: it is a stream table"
            raise DirectWriteRefused(message, hint="rename it, or take the table out of the publication")
        return located

    def has_slot(self, publisher: Publisher, slot: str | None) -> bool:
        """Tell whether its slot belongs to a publisher. No server is asked, because it might not answer."""
        if self.slot is None or slot is None:
            return False
        return self.slot.casefold() == slot.casefold() and same(self.publisher, publisher)

    def slot_name(self) -> Name:
        """Return the full name of its slot. Raises InvalidStatement when it has none."""
        return self.publisher.name(self._slot())

    def known_slot_name(self) -> Name | None:
        """Return the full name of its slot as far as this process knows it, without asking a server."""
        return self.publisher.known_name(self._slot())

    def _slot(self) -> str:
        if self.slot is None:
            hint = "ALTER SUBSCRIPTION ... SET (slot_name = '...')"
            raise InvalidStatement(f"the subscription {self} has no replication slot", hint=hint)
        return self.slot


def slots_in_sight(spark: SparkSession, besides: Container[Sequence[str]] = (), *, asking: bool) -> list[CatalogObject]:
    """Return the slots of the session's catalog, and those that its subscriptions use elsewhere.

    `besides` are full names that are not looked at; for `asking` see `slots_in_use`.
    """
    here = list(objects.every(spark, SLOT, None, besides))
    for name in sorted(slots_in_use(spark, besides, asking=asking).keys() - {slot.name for slot in here}):
        with left_out(".".join(name)):
            here += filter(None, [objects.find(spark, SLOT, Name(name))])
    return here


def slots_in_use(
    spark: SparkSession, besides: Container[Sequence[str]] = (), *, asking: bool = True
) -> dict[tuple[str, ...], Subscription]:
    """Return the visible, enabled subscriptions by the name of their slot.

    Unless `asking`, no server is asked: what watches without end must not wait for one. Slots of servers that this process did not
    ask yet are left out, and so are those whose server does not answer, or whose publisher is gone.
    """
    found = dict[tuple[str, ...], Subscription]()
    for each in objects.every_as(spark, SUBSCRIPTION, Subscription.of, None, besides):
        with suppress(NotEnabled, InvalidStatement):
            if each.enabled and (name := each.slot_name() if asking else each.known_slot_name()):
                found[name.parts] = each
    return found
