"""The scheduler's access to Spark: it polls the tables, refreshes one of them, and records failures."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone, tzinfo
from math import inf
from threading import Event

from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.definition import SUSPENDED
from streamtable.catalog.entries import Entry, find_at
from streamtable.catalog.index import Index
from streamtable.catalog.requests import Request
from streamtable.definitions.settle import settle_everywhere
from streamtable.delta.latest import LatestVersions, committed_after
from streamtable.delta.tables import Version
from streamtable.engine import clock
from streamtable.errors import ConcurrentRefresh, StreamTableNotFound, StreamTableSuspended, clear_frames
from streamtable.language.stream_table.schedule import Cron, session_zone
from streamtable.refresh.choose import Action
from streamtable.refresh.compact import maintain
from streamtable.refresh.frontier import Frontier, Vector, decided_by_versions
from streamtable.refresh.records import Cause, Initiator, Record
from streamtable.schedule.cycle import Refreshed, Task, as_it_is, carry_out
from streamtable.schedule.due import ScheduledTable
from streamtable.schedule.failures import backoff, failure_record, is_transient, write, write_failure
from streamtable.schedule.interface import Again, Failed, Observation
from streamtable.schedule.requests import give_back, in_order, take, waiting
from streamtable.schedule.switch import switch
from streamtable.settings.session import PARALLELISM, POLL, RETRIES, SUSPEND_AFTER, setting_or_default

__all__ = ["SparkEngine", "table_of"]

log = logging.getLogger("streamtable.scheduler")

SETTLE_EVERY = 60.0
"""Seconds between two searches for the remains of killed statements."""


class SparkEngine:
    """Serves a Scheduler with the stream tables of a session's catalog. The session's current settings apply."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._latest = LatestVersions()
        self._index = Index(spark, self._latest)
        self._tables = Seen()
        self._settled = self._polled = -inf
        self._suspended = False

    def alive(self) -> bool:
        """Tell whether the Spark context was not stopped."""
        return self._spark.sparkContext._jsc is not None

    def observe(self) -> Observation:
        """Read definitions and versions, from the catalog and the logs alone.

        On this machine's disk only what has commits is read again.
        """
        poll = setting_or_default(self._spark, POLL)
        if time.monotonic() >= self._polled + poll:
            self._polled = time.monotonic()
            self._suspended = switch(self._spark).suspended_since is not None
        if time.monotonic() >= self._settled + SETTLE_EVERY:
            self._settled = time.monotonic()
            self._settle()
        at = clock.now()
        found = self._index.poll(every=poll)
        vector = self._vector(found, at)
        tables = in_order(self._tables.at(found, vector), found.values(), vector.at)
        return Observation(tables, vector, timedelta(seconds=poll), setting_or_default(self._spark, PARALLELISM), self._suspended)

    def _vector(self, found: Mapping[str, Entry], at: datetime) -> Vector:
        """Return the versions of the stream tables as the index found them since `at`, and of all other sources."""
        sources = {source for entry in found.values() for source in entry.definition.sources}
        others = Vector.read(self._spark, sorted(sources - found.keys()), self._latest)
        mine = {path: entry.state.latest for path, entry in found.items()}
        return replace(others, versions={**mine, **others.versions}, at=at)

    def committed(self, versions: Iterable[tuple[str, Version]]) -> bool:
        """Look for the files of the next versions on this machine's disk. Elsewhere only `observe` finds a commit."""
        return any(committed_after(path, version.number) for path, version in versions)

    def _settle(self) -> None:
        """Settle the remains of killed statements of other processes. Errors of that do not end the scheduler."""
        try:
            for each in settle_everywhere(self._spark):
                end = "is done" if each.done else "was taken back"
                log.warning("%s of %s, which %s did not finish, %s", each.intent.kind.value, each.intent.name, each.intent.by, end)
        except Exception as error:
            log.warning("what killed statements left is not settled yet: %s", error)
            clear_frames(error)

    def refresh(self, task: Task, attempt: int, stopping: Event) -> Refreshed | Failed | Again:
        """Refresh a table under a Spark job group of its name. Lasting failures are recorded, and in the end suspend the table.

        A failure that is recorded ends the request of the table. Otherwise the request is given back.
        """
        with self._jobs_of(task):
            return self._refresh(task, attempt, stopping)

    @contextmanager
    def _jobs_of(self, task: Task) -> Iterator[None]:
        """Give the Spark jobs of this thread the group and the tag of a task."""
        context = self._spark.sparkContext
        context.setJobGroup(task.group, f"refresh of {task.name}", interruptOnCancel=False)
        context.addJobTag(task.tag)
        try:
            yield
        finally:
            context.removeJobTag(task.tag)

    def _refresh(self, task: Task, attempt: int, stopping: Event) -> Refreshed | Failed | Again:
        started = time.perf_counter()
        mine: Request | None = None
        try:
            if task.request and (mine := take(self._spark, task.path, task.request)) is None:
                return as_it_is(self._spark, task) or Failed(f"another scheduler refreshes {task.name}")
            outcome, done = carry_out(self._spark, task, _cause(task, mine), mine is not None and mine.full)
        except StreamTableSuspended:
            return Failed(f"{task.name} is suspended")
        except Exception as error:  # whatever it is, it is the table's and not the scheduler's
            failed = Failed(f"{task.name} failed") if stopping.is_set() else self._failed(task, attempt, error, started, mine)
            clear_frames(error)
            return failed
        finally:
            if mine:
                give_back(self._spark, task.path, mine)
        log.debug("%s: %s", task.name, outcome)
        if not stopping.is_set():
            self._maintain(task)
        return done

    def _failed(self, task: Task, attempt: int, error: Exception, started: float, mine: Request | None) -> Failed | Again:
        if attempt <= setting_or_default(self._spark, RETRIES) and is_transient(error):
            log.debug("the refresh of %s is tried again: %s", task.name, error)
            return Again(backoff(attempt))
        if isinstance(error, ConcurrentRefresh):  # what another did first is no fault of the table
            log.warning("another refresh of %s came first %d times; it waits for its next time", task.name, attempt)
            return Failed(f"another session refreshed {task.name} meanwhile")
        if isinstance(error, StreamTableNotFound):
            self._index.forget(task.path)
        log.warning("the refresh of %s failed: %s", task.name, error)
        record = failure_record(error, started, _cause(task, mine))
        write_failure(self._spark, task.path, error, record, setting_or_default(self._spark, SUSPEND_AFTER))
        return Failed(f"{task.name} failed")

    def _maintain(self, task: Task) -> None:
        """Compact tables with many small files, while no other worker of this scheduler refreshes the table."""
        try:
            if (entry := find_at(self._spark, task.path)) and (paths := maintain(self._spark, entry)):
                log.info("%s was compacted: %s", task.name, ", ".join(paths))
        except Exception as error:  # it is refreshed, and will be compacted another time
            log.warning("%s could not be compacted: %s", task.name, error)

    def skip(self, path: str, reason: str) -> None:
        """Write a line into the table's history."""
        write(self._spark, path, Record(Action.SKIPPED, reason, 0, initiated_by=Initiator.SCHEDULER.value))

    def cancel(self, task: Task) -> None:
        """Cancel the Spark jobs of a refresh, and those of nobody else who refreshes the table."""
        self._spark.sparkContext.cancelJobsWithTag(task.tag)


def _cause(task: Task, mine: Request | None) -> Cause:
    if mine:
        return Cause(Initiator.REQUEST, task.deadline, mine.id)
    return Cause(Initiator.SCHEDULER, task.deadline)


@dataclass(frozen=True)
class _Read:
    """What a stream table's own entry says, whatever the versions of its sources are."""

    entry: Entry
    frontier: Frontier | None
    zone: tzinfo
    by_versions: bool

    @classmethod
    def of(cls, entry: Entry) -> _Read:
        frontier, definition = Frontier.of(entry.state.frontier), entry.definition
        match definition.statement.schedule:
            case Cron(_, None):
                zone = session_zone(definition.settings["spark.sql.session.timeZone"])
            case _:
                zone = timezone.utc
        return cls(entry, frontier, zone, frontier is not None and decided_by_versions(entry, frontier))

    def at(self, vector: Vector) -> ScheduledTable:
        definition, frontier, request = self.entry.definition, self.frontier, waiting(self.entry, vector.at)
        moved = frontier is not None and _moved(frontier, vector)
        return ScheduledTable(
            self.entry.path,
            definition.name,
            definition.statement.schedule,
            tuple(definition.sources),
            frontier.at if frontier else None,
            definition.status == SUSPENDED,
            moved or request is not None or not (self.by_versions and self._is_ours(vector)),
            self.zone,
            definition.resumed.at if definition.resumed else None,
            moved,
            request,
        )

    def _is_ours(self, vector: Vector) -> bool:
        """Tell whether the last commit is that of the refresh. One after it may be foreign."""
        state = self.entry.state
        latest = vector.versions.get(state.path) == state.latest
        return latest and self.frontier is not None and state.version == self.frontier.base + 1


def table_of(entry: Entry, vector: Vector) -> ScheduledTable:
    """Return the scheduler's view of a stream table when all tables are at the versions of `vector`.

    It is behind if a refresh may find changes.
    """
    return _Read.of(entry).at(vector)


class Seen:
    """The scheduler's view of all stream tables. An entry is read once, while the table has no other one."""

    def __init__(self) -> None:
        self._read: dict[str, _Read] = {}

    def at(self, found: Mapping[str, Entry], vector: Vector) -> dict[str, ScheduledTable]:
        """Return the tables when all tables are at the versions of `vector`."""
        same = {path: read for path, read in self._read.items() if found.get(path) is read.entry}
        self._read = {path: same.get(path) or _Read.of(entry) for path, entry in found.items()}
        return {path: read.at(vector) for path, read in self._read.items()}


def _moved(frontier: Frontier, vector: Vector) -> bool:
    """Tell whether a source has another version than the contents stand for. The clock is none: it moves with each look."""
    return any(vector.versions.get(path) != version for path, version in frontier.sources.items() if path != CLOCK.path)
