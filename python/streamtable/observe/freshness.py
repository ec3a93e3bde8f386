"""The age of each stream table's contents, from the logs of its sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from math import ceil
from typing import TypeAlias

import networkx as nx
from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.entries import Entry
from streamtable.catalog.graph import without_cycles
from streamtable.delta.commit_ids import is_same
from streamtable.delta.summaries import commits
from streamtable.delta.tables import Version
from streamtable.engine import clock
from streamtable.language.stream_table.schedule import Every, Manual, OnUpdate
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.schedule.due import NEVER, ONCE, ScheduledTable, deadlines, graph_of
from streamtable.schedule.engine import table_of
from streamtable.settings.session import POLL, read_setting

__all__ = ["Freshness", "freshness", "promised", "with_read"]


@dataclass(frozen=True)
class Freshness:
    """The time until which the contents were the query's (None: never), and the deadline of the next refresh (None: no schedule).

    A table without data is stale, whatever its schedule.

    `now` is the time of the poll: if no source has changed, the contents are the query's up to now. A table that was never
    populated and is to be refreshed at once has the deadline `now`.
    """

    data_timestamp: datetime | None
    deadline: datetime | None
    now: datetime

    @property
    def staleness(self) -> timedelta | None:
        return None if self.data_timestamp is None else self.now - self.data_timestamp

    @property
    def stale(self) -> bool | None:
        if self.data_timestamp is None:
            return True
        return None if self.deadline is None else self.deadline < self.now

    @property
    def overdue(self) -> bool:
        """Tell whether the contents are twice as old as the schedule allows; a refresh that is just due is not an alert."""
        if self.deadline is None:
            return False
        if self.data_timestamp is None:
            return True
        return self.now > self.deadline + (self.deadline - self.data_timestamp)


def freshness(spark: SparkSession, found: Sequence[Entry]) -> dict[str, Freshness]:
    """Return the freshness of all stream tables, by path. All are needed, because the schedule of one may count for another."""
    read = {source for entry in found for source in entry.definition.sources}
    vector = Vector.read(spark, sorted(read))
    changed_at = _asked_once(spark)
    since = {entry.path: _current_until(entry, vector, changed_at) for entry in found}
    # A suspended table is not refreshed by its schedule, but counts as late. RESUME and a request make no table late.
    poll = read_setting(spark, POLL)
    seen = (promised(table_of(each, vector), poll) for each in found)
    tables = {table.path: replace(table, since=since[table.path], suspended=False, resumed=None, request=None) for table in seen}
    meant = {NEVER: None, ONCE: vector.at}
    return {path: Freshness(since, meant.get(due, due), vector.at) for path, (since, due) in with_read(tables).items()}


def promised(table: ScheduledTable, poll: float) -> ScheduledTable:
    """Return a table ON UPDATE with what that promises: contents that are no older than the time between refreshes and a poll."""
    match table.schedule:
        case OnUpdate() as schedule:
            seconds = schedule.seconds + ceil(poll)
            return replace(table, schedule=Every(seconds, f"{seconds}s"))
        case _:
            return table


def with_read(tables: Mapping[str, ScheduledTable]) -> dict[str, tuple[datetime | None, datetime]]:
    """Return the age and the deadline of each table, with regard to the stream tables that it reads.

    Contents are as old as the oldest contents below them: a reader of a suspended table lacks the same changes. Such a reader is
    late when both schedules have asked: a table that refreshes each minute, over one that refreshes each hour, is in time for
    that hour. A MANUAL table counts as a base table.
    """
    read = nx.DiGraph(
        (source, path)
        for path, table in tables.items()
        for source in table.sources
        if source in tables and not isinstance(tables[source].schedule, Manual)
    )
    read.add_nodes_from(tables)
    without_cycles(read)
    since = {path: table.since for path, table in tables.items()}
    order = [(path, list(read.predecessors(path))) for path in nx.topological_sort(read)]
    for path, below in order:
        ages = [since[each] for each in (path, *below)]
        since[path] = None if None in ages else min(filter(None, ages))
    graph = graph_of(tables.values())
    own = deadlines(tables, graph)
    asked = deadlines({path: replace(table, since=since[path]) for path, table in tables.items()}, graph)
    due: dict[str, datetime] = {}
    for path, below in order:
        due[path] = min(own[path], max(asked[path], min((due[each] for each in below), default=NEVER)))
    return {path: (since[path], due[path]) for path in tables}


ChangedAt: TypeAlias = Callable[[str, Version, Version | None], tuple[bool, datetime | None]]


def _current_until(entry: Entry, vector: Vector, changed_at: ChangedAt) -> datetime | None:
    frontier = Frontier.of(entry.state.frontier)
    if frontier is None:
        return None
    until = _left_to_the_tables(entry, frontier, vector.at)
    if until is None:
        return frontier.at
    read = ((path, version) for path, version in frontier.sources.items() if path != CLOCK.path)
    changed = [changed_at(path, version, vector.versions.get(path)) for path, version in read]
    return min((at or frontier.at or until for moved, at in changed if moved), default=until)


def _left_to_the_tables(entry: Entry, frontier: Frontier, now: datetime) -> datetime | None:
    """Return the time until which only changed rows make the contents old, at most now; None if something else may.

    A new text of a view makes them old too. Only a refresh finds it, when it is due.
    """
    if frontier.exact:
        return now
    if frontier.clock != "date":
        return None
    ends = clock.day_ends(frontier.sources[CLOCK.path], entry.definition.settings["spark.sql.session.timeZone"])
    return ends and min(ends, now)


def _asked_once(spark: SparkSession) -> ChangedAt:
    """Return what asks the log once where many tables have read one source up to one version."""

    @cache
    def asked(path: str, before: Version, latest: Version | None, *_: str | None) -> tuple[bool, datetime | None]:
        return _changed_at(spark, path, before, latest)

    # A version without a known commit equals several that differ from each other.
    return lambda path, before, latest: asked(path, before, latest, before.commit, latest.commit if latest else None)


def _changed_at(spark: SparkSession, path: str, before: Version, latest: Version | None) -> tuple[bool, datetime | None]:
    """Tell whether rows of the source changed since they were read, and when the first of them did, if the log still tells."""
    if latest == before:
        return False, None
    if latest is None or latest.table_id != before.table_id or latest.number < before.number:
        return True, None
    if not is_same(spark, path, before, latest):
        return True, None
    pending = commits(spark, path, before.number, latest.number, complete=False)
    if len(pending) < latest.number - before.number:
        return True, None
    first = next((each for each in pending if each.data_change), None)
    return first is not None, first.at if first else None
