"""The changes that each stream table still has to read of its sources, the way to read them, and until when they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from functools import cache
from typing import TypeAlias

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry
from streamtable.catalog.kinds import CatalogObject
from streamtable.delta.commit_ids import commits_since, replaced
from streamtable.delta.rows import reads_feed
from streamtable.delta.summaries import CommitSummary
from streamtable.delta.tables import Version, holds_files, retention
from streamtable.errors import HistoryLost, StreamTableError
from streamtable.language.write import to_sql
from streamtable.queue import consumers, history
from streamtable.queue.definition import Queue, queues
from streamtable.queue.events import session_context
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.replication import slots
from streamtable.replication.subscriptions import slots_in_sight
from streamtable.subscribing.feed import opened
from streamtable.subscribing.inputs import Inputs

__all__ = ["Health", "SourceState", "health", "slot_health", "source_health"]

ENOUGH = 0.25
"""The history is expiring when less than this part of its time is left."""


@dataclass(frozen=True)
class _Reader:
    """The action that a reader has to take before the history expires, and the consequence of a lost history."""

    acts: str
    otherwise: str


_TABLE = _Reader("refresh", "the next refresh recomputes")
_SLOT = _Reader("apply", "the subscription has to copy it anew")
_CONSUMER = _Reader("finish batches", "the consumer has to be registered anew")


class SourceState(str, Enum):
    """The state of a source, for one of its readers; people see the value."""

    OK = "OK"
    NOT_READ = "NOT_READ"
    EXPIRING = "EXPIRING"
    LOST = "LOST"
    RECREATED = "RECREATED"
    UNREADABLE = "UNREADABLE"
    GONE = "GONE"


@dataclass(frozen=True)
class Health:
    """The health of one source of the reader `name`: a stream table, a slot, or a queue's consumer.

    `read` and `latest` are versions of the source. `waiting` is the number of versions between them that changed rows,
    `behind_since` the time of the first. `history_until` is the time until which their log and files are kept at least. `warning`
    is for people.
    """

    name: str
    source: str
    path: str
    state: SourceState
    change_mode: str | None = None
    read: int | None = None
    latest: int | None = None
    waiting: int = 0
    behind_since: datetime | None = None
    history_until: datetime | None = None
    warning: str | None = None


def health(spark: SparkSession, found: Sequence[Entry]) -> list[Health]:
    """Return the health of the sources of the given stream tables, of all slots, and of all consumers of queues."""
    names = {entry.name for entry in found}
    slots = slot_health(spark, slots_in_sight(spark, names, asking=False))
    consumers_ = (each for queue in queues(spark, None, names) for each in _consumer_health(spark, queue))
    return [*source_health(spark, found), *slots, *consumers_]


def source_health(spark: SparkSession, found: Sequence[Entry]) -> list[Health]:
    """Return the health of the sources of the given stream tables."""
    vector = Vector.read(spark, sorted({source for entry in found for source in entry.definition.sources}))
    unread, healths = _unread_of(spark), list[Health]()
    for entry in found:
        frontier = Frontier.of(entry.state.frontier)
        for path, source in entry.definition.sources.items():
            read = frontier.sources.get(path) if frontier else None
            known = Health(entry.definition.name, source, path, SourceState.OK)
            healths.append(_health(spark, known, read, vector, _TABLE, unread))
    return healths


def slot_health(spark: SparkSession, found: Sequence[CatalogObject]) -> list[Health]:
    """Return the health of the tables of the given replication slots."""
    positions = [(slot, each) for slot in found for each in slots.positions(slot).values()]
    vector, unread = Vector.read(spark, sorted({each.path for _, each in positions})), _unread_of(spark)
    return [
        _health(
            spark,
            Health(str(slot), each.table, each.path, SourceState.OK),
            Version(each.table_id, each.confirmed),
            vector,
            _SLOT,
            unread,
        )
        for slot, each in positions
    ]


def _consumer_health(spark: SparkSession, queue: Queue) -> list[Health]:
    """Return the health of the inputs of each consumer. An unreadable queue counts as one missing source."""
    try:
        with session_context(spark, queue) as session, opened(session, queue.subscribe.relation) as feed:
            return list(_consumers(spark, queue, feed.relation.inputs))
    except StreamTableError as error:
        return [Health(str(queue), to_sql(queue.subscribe), queue.path, SourceState.GONE, warning=error.reason)]


def _consumers(spark: SparkSession, queue: Queue, inputs: Inputs) -> Iterator[Health]:
    vector, unread = Vector.read(spark, sorted({each.path for each in inputs.opened})), _unread_of(spark)
    for consumer in consumers.of(spark, queue):
        other = history.recreated(consumer, inputs, consumer.finished)
        older = inputs.overwritten(consumer.position, consumer.commits)
        for table, version in zip(inputs.opened, inputs.times.versions(consumer.finished), strict=True):
            source = Health(f"{queue}: {consumer.name}", str(table), table.path, SourceState.OK)
            table_id = "" if table == other else table.table_id
            found = _health(spark, source, Version(table_id, version), vector, _CONSUMER, unread)
            yield _lost(found, version, _CONSUMER) if table == older and table != other else found


Unread: TypeAlias = Callable[[str, int, int, str | None], tuple[Sequence[CommitSummary], bool]]


def _unread_of(spark: SparkSession) -> Unread:
    """Return what tells the commits of a table that a reader has not read, and whether it reads them from the change data feed.

    It raises HistoryLost. Many readers have read one table up to one version: it asks the log once.
    """

    @cache
    def unread(path: str, after: int, upto: int, commit: str | None) -> tuple[Sequence[CommitSummary], bool]:
        pending = commits_since(spark, path, Version("", after, commit), upto) if upto > after else ()
        return pending, reads_feed(spark, path, pending)

    return unread


def _health(spark: SparkSession, source: Health, read: Version | None, vector: Vector, reader: _Reader, unread: Unread) -> Health:
    latest = vector.versions.get(source.path)
    found = replace(source, read=read.number if read else None, latest=latest.number if latest else None)
    if why := vector.unreadable.get(source.path):
        return replace(
            found,
            state=SourceState.UNREADABLE,
            warning=f"its log cannot be read, and nothing can {reader.acts} until it can: {why}",
        )
    if latest is None:
        return replace(
            found, state=SourceState.GONE, warning=f"the source table is missing: nothing can {reader.acts} until it is restored"
        )
    if read is None:
        return replace(found, state=SourceState.NOT_READ)
    if read.table_id != latest.table_id or read.number > latest.number:
        return replace(found, state=SourceState.RECREATED, warning=f"it was recreated: {reader.otherwise}")
    if latest.replaces(read):
        return _lost(found, read.number, reader)
    try:
        pending, feed = unread(source.path, read.number, latest.number, read.commit)
    except HistoryLost as error:
        return replace(found, state=SourceState.LOST, warning=f"{error.reason}: {reader.otherwise}")
    changing = [each.at for each in pending if each.data_change]
    return replace(
        _outlook(spark, found, pending, vector.at, reader),
        change_mode="cdf" if feed else "diff",
        waiting=len(changing),
        behind_since=changing[0] if changing else None,
    )


def _lost(found: Health, version: int, reader: _Reader) -> Health:
    return replace(found, state=SourceState.LOST, warning=f"{replaced(found.path, version)}: {reader.otherwise}")


def _outlook(spark: SparkSession, found: Health, pending: Sequence[CommitSummary], now: datetime, reader: _Reader) -> Health:
    """Warn of the time until which unread changes are kept."""
    if not pending:
        return found
    kept = retention(spark, found.path)
    ends = [(pending[0].at + kept.log, kept.log, "the log is kept")]
    if removal := next((each for each in pending if each.removes_files), None):
        # VACUUM takes the oldest files first: while those of the first removal are there, all are.
        if not holds_files(spark, found.path, removal.version):
            text = f"VACUUM took files of version {removal.version}: {reader.otherwise}"
            return replace(found, state=SourceState.LOST, warning=text)
        ends.append((removal.at + kept.files, kept.files, "VACUUM keeps files"))
    until, span, why = min(ends)
    if until - now >= ENOUGH * span:
        return replace(found, history_until=until)
    text = f"{why} for {span}: {reader.acts} before {until:%Y-%m-%d %H:%M:%S} UTC; after that {reader.otherwise}"
    return replace(found, state=SourceState.EXPIRING, history_until=until, warning=text)
