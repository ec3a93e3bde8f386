"""SCHEDULE IMMEDIATE: who wrote refreshes the tables above what was written, before his statement returns."""

from __future__ import annotations

import time
from collections.abc import Collection, Container, Mapping, Sequence

import networkx as nx
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.catalog.definition import SUSPENDED
from streamtable.catalog.entries import Entry, load
from streamtable.catalog.graph import read_by
from streamtable.catalog.immediate import index
from streamtable.errors import ConcurrentRefresh, StatementCancelled, StreamTableError, StreamTableSuspended, clear_frames
from streamtable.jvm.failures import cancelled
from streamtable.language.names import Name
from streamtable.language.stream_table.schedule import Immediate
from streamtable.refresh.choose import Action
from streamtable.refresh.records import PATIENCE, Cause, Initiator, Record
from streamtable.schedule.cancelling import TimeLimit
from streamtable.schedule.cycle import Cycle, Task, carry_out, cycle_of, named
from streamtable.schedule.failures import failure_record, text_of, write, write_failure
from streamtable.schedule.graph import Graph
from streamtable.settings.session import IMMEDIATE_TIMEOUT, SUSPEND_AFTER, setting_or_default

__all__ = ["follow", "follow_fill", "moving"]

_CAUSE = Cause(Initiator.IMMEDIATE)


def follow(spark: SparkSession, places: Sequence[str], only: Container[str] | None = None) -> list[str]:
    """Refresh the tables IMMEDIATE above the tables at `places`; return which of them lack the write, and why.

    The write is committed, so that nothing is raised that speaks of it. The refreshes take no longer than IMMEDIATE_TIMEOUT.
    With `only`, tables IMMEDIATE at other paths are left alone. Raises StatementCancelled.
    """
    following = _Following(spark, places, only)
    try:
        PATIENCE(following.once)
    except ConcurrentRefresh as error:  # the next write, or a scheduler, refreshes them
        clear_frames(error)
        return [*following.missed.values(), text_of(error)]
    return list(following.missed.values())


def follow_fill(spark: SparkSession, name: Name) -> list[str]:
    """Refresh a table IMMEDIATE that was just filled: who wrote meanwhile did not see it. Return what `follow` returns.

    Where nobody wrote, the logs of its sources say so. The table is there, so that nothing is raised, not for a cancel either.
    """
    try:
        made = load(spark, name).path
        known = Graph.of(read_by(index(spark).poll().values()))
        return follow(spark, sorted(known.all_sources([made])), only=(made,))
    except (StreamTableError, PySparkException, Py4JJavaError) as error:
        clear_frames(error)
        return [f"what was written meanwhile may not be in it: {text_of(error)}"]


def moving(
    tables: Mapping[str, Entry],
    graph: nx.DiGraph[str],
    places: Collection[str],
    failed: Collection[str] = (),
    only: Container[str] | None = None,
) -> dict[str, str]:
    """Return the names of the tables to refresh by path, sources first: those IMMEDIATE above the places, and what lies between.

    Another branch of a diamond comes along, because all branches need one vector of versions. A table that needs a suspended
    one, or one that has `failed`, keeps what it has. With `only`, the tables IMMEDIATE at other paths count as if they were not.
    """
    known = Graph.of(graph)
    above = known.all_readers(places)
    kept = {path for path, entry in tables.items() if entry.definition.status == SUSPENDED}.union(failed)
    asked = {path for path in above & tables.keys() if only is None or path in only}
    wanted = {path for path in asked if isinstance(tables[path].definition.statement.schedule, Immediate)}
    found = set[str]()
    for path in reversed([each for each in known.order if each in wanted]):
        if path in found:  # as a branch, or below another: what it needs is among what that one needs
            continue
        needed, more = set[str](), {path, *(known.all_sources([path]) & above)} & tables.keys()
        while more:
            needed |= more
            more = set[str]().union(*(known.branches(each) for each in more)) & tables.keys() - needed
        if needed.isdisjoint(kept):
            found |= needed
    return named(graph, found)


class _Following:
    """The refreshes after one write. `missed` tells of each table that lacks it, by its path."""

    def __init__(self, spark: SparkSession, places: Sequence[str], only: Container[str] | None) -> None:
        self._spark, self._places, self._only = spark, places, only
        self._limit = TimeLimit(spark.sparkContext, setting_or_default(spark, IMMEDIATE_TIMEOUT))
        self._recorded = False
        self.missed: dict[str, str] = {}

    def once(self) -> None:
        """Refresh all that lacks the write. Raises ConcurrentRefresh where another session was in between."""
        known = index(self._spark)
        tables = {**known.poll(), **{path: entry for path, (entry, _) in known.lost.items()}}
        graph = read_by(tables.values())
        self._tell_unreadable(tables, graph, known.lost)
        if not (names := moving(tables, graph, self._places, self.missed, self._only)):
            return
        cycle, late = cycle_of(self._spark, graph, names), list[str]()
        while ready := cycle.ready():
            task, started = cycle.start(ready[0]), time.perf_counter()
            if self._limit.over():
                self._too_late(cycle, task, started)
                continue
            try:
                with self._limit.held():
                    _, done = carry_out(self._spark, task, _CAUSE)
            except ConcurrentRefresh:
                late.append(task.name)
                cycle.failed(task)
            except Exception as error:  # whatever it is, it is the table's and not the write's
                if not _is_cancelled(error):
                    self._failed(cycle, task, error, started)
                elif self._limit.over():
                    self._stopped(cycle, task, error, started)
                else:
                    raise StatementCancelled(f"the refresh of {task.name} was cancelled") from error
            else:
                if cycle.refreshed(task, done) or done.skipped:
                    late.append(task.name)
        if late:
            raise ConcurrentRefresh(f"another session refreshed {', '.join(late)} meanwhile, or what they read")

    def _tell_unreadable(self, tables: Mapping[str, Entry], graph: nx.DiGraph[str], lost: Mapping[str, tuple[Entry, str]]) -> None:
        """Tell of tables that lack the write because one cannot be read: that one itself, and those above it."""
        wanted = moving(tables, graph, self._places, only=self._only) if lost else {}
        for path in lost.keys() & wanted.keys():
            name, why = wanted[path], lost[path][1]
            self.missed[path] = f"{name} was not refreshed, because it cannot be read: {why}"
            for above in nx.descendants(graph, path) & wanted.keys() - lost.keys():
                self.missed[above] = f"{wanted[above]} was not refreshed: {name} cannot be read"

    def _too_late(self, cycle: Cycle, task: Task, started: float) -> str:
        """Go on without a table whose refresh has no time left, and without its readers; return why.

        That is no failure of the table, for which a scheduler may have more time. The history of the first one says so:
        the writer waits for each line.
        """
        for path in (task.path, *cycle.failed(task)):
            self.missed[path] = f"{cycle.names[path]} was not refreshed: {self._no_time} {_later(cycle.names[path])}"
        reason, took = f"{self._no_time} {_later(task.name)}", round(1000 * (time.perf_counter() - started))
        if not self._recorded:
            write(self._spark, task.path, Record(Action.SKIPPED, reason, took, initiated_by=_CAUSE.initiator.value))
            self._recorded = True
        return reason

    def _stopped(self, cycle: Cycle, task: Task, error: Exception, started: float) -> None:
        """Go on as where no time is left, and say that the refresh had begun."""
        clear_frames(error)
        self.missed[task.path] = f"the refresh of {task.name} was stopped: {self._too_late(cycle, task, started)}"

    @property
    def _no_time(self) -> str:
        return f"a write waits {self._limit.seconds:g} s at most ({IMMEDIATE_TIMEOUT.key})."

    def _failed(self, cycle: Cycle, task: Task, error: Exception, started: float) -> None:
        """Record a failure, and the readers that are skipped for it."""
        self.missed[task.path] = f"the refresh of {task.name} failed: {text_of(error)}"
        if not isinstance(error, StreamTableSuspended):
            record = failure_record(error, started, _CAUSE)
            write_failure(self._spark, task.path, error, record, setting_or_default(self._spark, SUSPEND_AFTER))
        clear_frames(error)
        reason = f"{task.name} failed"
        for path in cycle.failed(task):
            self.missed[path] = f"{cycle.names[path]} was not refreshed: {reason}"
            write(self._spark, path, Record(Action.SKIPPED, reason, 0, initiated_by=_CAUSE.initiator.value))


def _is_cancelled(error: Exception) -> bool:
    """Tell whether somebody cancelled a refresh, or what is done beside it."""
    return isinstance(error, StatementCancelled) or (isinstance(error, Py4JJavaError | CapturedException) and cancelled(error))


def _later(name: str) -> str:
    return f"A scheduler refreshes it at its next look, or the next write does; REFRESH STREAM TABLE {name} does it at once"
