"""How old the contents of each stream table are, told from the logs of what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.entries import Entry
from streamtable.delta.tables import commits
from streamtable.refresh import clock
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.schedule.due import NEVER, deadlines, graph_of
from streamtable.schedule.engine import table_of

__all__ = ["Freshness", "freshness"]


@dataclass(frozen=True)
class Freshness:
    """Until when the contents were the query's (None: never), and by when they ought to be refreshed (None: no schedule asks).

    `now` is the moment of looking: where no source has changed, the contents are the query's up to now.
    """

    data_timestamp: datetime | None
    deadline: datetime | None
    now: datetime

    @property
    def staleness(self) -> timedelta | None:
        return None if self.data_timestamp is None else self.now - self.data_timestamp

    @property
    def stale(self) -> bool | None:
        return None if self.deadline is None else self.deadline < self.now

    @property
    def overdue(self) -> bool:
        """Tell whether it is twice as old as its schedule allows: a refresh that is just about to come is no cause for alarm."""
        if self.data_timestamp is None or self.deadline is None:
            return self.stale is True
        return self.now > self.deadline + (self.deadline - self.data_timestamp)


def freshness(spark: SparkSession, found: Sequence[Entry]) -> dict[str, Freshness]:
    """Return the freshness of all stream tables, by path: all at once, because the schedule of one may count for another."""
    read = {source for entry in found for source in entry.definition.sources}
    vector = Vector.read(spark, sorted(read))
    since = {entry.path: _current_until(spark, entry, vector) for entry in found}
    # What is suspended is not refreshed by its schedule, but late it is; and RESUME makes nothing late.
    tables = {e.path: replace(table_of(e, vector), since=since[e.path], suspended=False, resumed=None) for e in found}
    due = deadlines(tables, graph_of(tables.values()))
    return {path: Freshness(since[path], due[path] if due[path] != NEVER else None, vector.at) for path in tables}


def _current_until(spark: SparkSession, entry: Entry, vector: Vector) -> datetime | None:
    frontier = Frontier.of(entry.state.frontier)
    if frontier is None:
        return None
    until = _left_to_the_tables(entry, frontier, vector.at)
    if until is None:
        return frontier.at
    changed = [_changed_at(spark, path, frontier, vector) for path in frontier.sources if path != CLOCK.path]
    return min((at or frontier.at or until for moved, at in changed if moved), default=until)


def _left_to_the_tables(entry: Entry, frontier: Frontier, now: datetime) -> datetime | None:
    """Return until when nothing but changed rows makes the contents old: at most now; None where something else may.

    A view that was given another text does so too, which only a refresh finds out, and one that is due looks.
    """
    if frontier.exact:
        return now
    if frontier.clock != "date":
        return None
    ends = clock.day_ends(frontier.sources[CLOCK.path], entry.definition.settings["spark.sql.session.timeZone"])
    return ends and min(ends, now)


def _changed_at(spark: SparkSession, path: str, frontier: Frontier, vector: Vector) -> tuple[bool, datetime | None]:
    """Tell whether rows of the source changed since they were read, and when they first did, if the log still says."""
    before, latest = frontier.sources[path], vector.versions.get(path)
    if latest is None or latest.table_id != before.table_id or latest.number < before.number:
        return True, None
    pending = commits(spark, path, before.number, latest.number, complete=False)
    if len(pending) < latest.number - before.number:
        return True, None
    first = next((each for each in pending if each.data_change), None)
    return first is not None, first.at if first else None
