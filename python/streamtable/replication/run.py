"""APPLY SUBSCRIPTION: copies tables, and applies the commits since the last position."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from weakref import WeakValueDictionary

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.entries import CATALOG
from streamtable.catalog.kinds import PUBLICATION, SLOT
from streamtable.engine import clock
from streamtable.errors import (
    ConcurrentRefresh,
    InvalidStatement,
    ReplicationConflict,
    StatementFailed,
    StorageFailed,
    StreamTableError,
    message_of,
)
from streamtable.jvm.failures import cancelled, root_cause
from streamtable.jvm.storage import storage_failed
from streamtable.language.names import Name
from streamtable.replication import slots
from streamtable.replication.apply import AppliedTable, Stopped
from streamtable.replication.publications import Published, outside, published
from streamtable.replication.source import source_of
from streamtable.replication.subscriptions import SubscribedTable, Subscription, SyncState
from streamtable.replication.writer import Applied
from streamtable.sessions.internal import lent

__all__ = ["Progress", "apply", "published_to"]

_log = logging.getLogger(__name__)


class _Turn:
    def __init__(self) -> None:
        self.lock = Lock()


_applying: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
"""Locks by subscription: of two applies in this process one waits, because both would compute the same."""


@dataclass(frozen=True)
class Progress:
    """The result of APPLY SUBSCRIPTION for one table."""

    table: str
    state: str
    position: int | None
    applied: Applied


def apply(spark: SparkSession, name: Name) -> list[Progress]:
    """Copy new tables, and apply the commits up to now.

    A table that fails does not block the others; the first error is raised in the end. A cancellation ends it and fails no table.
    """
    subscription = Subscription.load(spark, name)
    turn = _applying.setdefault(subscription.id, _Turn())
    # Conditions mean what they meant at CREATE SUBSCRIPTION.
    with turn.lock, lent(spark, (CATALOG, "default"), subscription.settings) as session:
        subscription = Subscription.load(spark, name)
        if not subscription.enabled:
            raise InvalidStatement(f"the subscription {subscription} is disabled", hint="ALTER SUBSCRIPTION ... ENABLE")
        slot = objects.load(spark, SLOT, subscription.slot_name())
        away = dict[str, StorageFailed]()
        tables = published_to(spark, subscription, away)
        subscription = _copying(spark, subscription)
        before, relations = subscription.relations, subscription.relations
        progress, errors = list[Progress](), list[Exception](away.values())
        # Others wait until REFRESH PUBLICATION takes them in, or forgets them.
        for table in sorted(before.keys() & tables.keys()):
            moved, applied, error = _advance(session, subscription, before[table], tables[table])
            relations[table] = moved
            progress.append(Progress(table, moved.state, moved.position, applied))
            errors += [_named(subscription, moved, error)] if error else []
            if error and cancelled(error):
                break
        passing = (*away.values(), *(each for each in errors if isinstance(each, ConcurrentRefresh) or cancelled(each)))
        lasting = [each for each in errors if each not in passing]
        disabled = {"enabled": False} if lasting and subscription.disable_on_error else {}
        if disabled or relations != before:
            subscription.change(spark, relations.values(), **disabled)
        reached = {
            ".".join(tables[each.table][0].name): (relations[each.table].source_id, each.position)
            for each in progress
            if each.position is not None
        }
        followed = {each.source_id for each in relations.values()}
        if away:  # nobody knows which of the slot's other tables are those
            followed |= {each.table_id for each in slots.positions(slot).values()}
        slots.advance(spark, slot, [each for several in tables.values() for each in several], reached, followed)
    if errors:
        raise errors[0]
    return sorted(progress, key=lambda each: each.table)


def _named(subscription: Subscription, relation: SubscribedTable, error: Exception) -> Exception:
    """Return an error of ours that names the table; what the caller itself did, or the disk, is told as it is."""
    if isinstance(error, StreamTableError) or cancelled(error) or storage_failed(error):
        return error
    failed = StatementFailed(f"the table {relation.table} of {subscription} cannot go on: {root_cause(error)}")
    failed.__cause__ = error
    return failed


def published_to(
    spark: SparkSession, subscription: Subscription, away: dict[str, StorageFailed] | None = None
) -> dict[str, list[Published]]:
    """Return what the publications send now, by table. Warn of missing publications.

    Tables whose storage is away are left out, and told in `away` by name; without one, StorageFailed is raised. Raises
    InvalidStatement for a table outside of the publisher's schema.
    """
    found = dict[str, list[Published]]()
    for name in map(subscription.publisher.name, subscription.publications):
        stored = objects.find(spark, PUBLICATION, name)
        if stored is None:
            _log.warning("the publication %s does not exist; %s has nothing from it", ".".join(name.parts), subscription)
            continue
        if others := outside(stored):
            hint = "subscribe to a publication that is in the schema of its tables"
            raise InvalidStatement(f"{stored} publishes {'.'.join(others[0].parts)}, of another schema", hint=hint)
        for table in published(spark, stored, subscription.publisher, away):
            found.setdefault(table.name[-1], []).append(table)
    for table_name in away or ():  # one publication may have found it, and would stand for all
        found.pop(table_name, None)
    return found


def _copying(spark: SparkSession, subscription: Subscription) -> Subscription:
    """Record the tables that are being copied, for people."""
    waiting = {name: each for name, each in subscription.relations.items() if each.state == SyncState.INIT}
    begun = {name: replace(each, state=SyncState.DATA_COPY.value) for name, each in waiting.items()}
    return subscription.change(spark, (subscription.relations | begun).values()) if begun else subscription


def _advance(
    session: SparkSession, subscription: Subscription, relation: SubscribedTable, publications: list[Published]
) -> tuple[SubscribedTable, Applied, Exception | None]:
    """Copy a table or apply its changes; return its progress, even if an error stopped it."""
    copying, table = relation.state == SyncState.DATA_COPY, None
    stopped_at, error = None, None
    state = relation.state
    try:
        source = source_of(session, publications)
        target = subscription.target(session, relation.table)
        table = AppliedTable(session, source, target, relation, subscription.origin == "none")
        if copying:
            table.copy()
            state = SyncState.FINISHED_COPY.value
        else:
            table.follow()
            state = _NEXT[state]
    except Stopped as stopped:
        stopped_at, error = stopped.position, stopped.__cause__
    except (PySparkException, Py4JJavaError) as other:
        error = other
    done = table.done if table else Applied()
    position = table.position if table else relation.position
    commit = relation.commit
    if table and not (error and position == relation.position):
        try:  # where an error stopped it, too: the commits before that are applied
            commit = table.commit()
        except (PySparkException, Py4JJavaError) as other:
            commit, error = None, error or other
    failed = None if error is None or cancelled(error) else error
    as_before = error is not None and failed is None and position == relation.position  # cancelled: its trouble is as it was
    skipped = relation.skip is not None and position is not None and position >= relation.skip
    moved = replace(
        _counted(relation, done, failed, copying),
        source_id=table.source_id if table else relation.source_id,
        state=state,
        position=position,
        commit=commit,
        written=table.written if table else relation.written,
        target_id=table.target_id if table and error is None else relation.target_id,
        stopped_at=relation.stopped_at if as_before else stopped_at,
        skip=None if skipped else relation.skip,
        error=relation.error if as_before else message_of(failed) if failed else None,
    )
    if table and error is None and (moved != relation or table.target_version - (relation.seen or 0) > _UNSEEN):
        moved = replace(moved, seen=table.target_version)
    if moved != relation:
        moved = replace(moved, changed_at=clock.now().isoformat())
    return moved, done, error if isinstance(error, Exception) else None


_UNSEEN = 100
"""After how many commits of others the version of the subscriber's table is recorded, even if nothing was applied."""

_NEXT: Mapping[str, str] = {
    SyncState.FINISHED_COPY.value: SyncState.SYNCED.value,
    SyncState.SYNCED.value: SyncState.READY.value,
    SyncState.READY.value: SyncState.READY.value,
}


def _counted(relation: SubscribedTable, done: Applied, error: BaseException | None, copying: bool) -> SubscribedTable:
    return replace(
        relation,
        **{name: getattr(relation, name) + count for name, count in vars(done).items()},
        insert_exists=relation.insert_exists + (isinstance(error, ReplicationConflict) and error.insert_exists),
        sync_errors=relation.sync_errors + (error is not None and copying),
        apply_errors=relation.apply_errors + (error is not None and not copying),
    )
