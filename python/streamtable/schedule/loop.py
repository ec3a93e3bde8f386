"""The scheduler: a thread that polls, decides by `due.plan`, and hands tables to workers. Only the engine touches Spark."""

from __future__ import annotations

import atexit
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from operator import itemgetter
from queue import Empty, SimpleQueue
from threading import Event, Thread
from types import TracebackType
from typing import Protocol, final

from streamtable.language.stream_table.schedule import Cron
from streamtable.refresh.frontier import Vector
from streamtable.schedule.cycle import Cycle, Refreshed, Task
from streamtable.schedule.due import ONCE, ScheduledTable, graph_of, plan

__all__ = ["ELSEWHERE", "Again", "Engine", "Failed", "Observation", "Scheduler"]

log = logging.getLogger("streamtable.scheduler")

ELSEWHERE = "another session refreshed tables that meet in it meanwhile"
"""The reason of a skipped diamond. It is recorded once: schedulers that share the work would record it in every other cycle."""

MOST_WORKERS = 64
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(minutes=1)
"""The pause between two polls while polls fail, as when the catalog cannot be reached."""


@dataclass(frozen=True)
class Observation:
    """The result of one poll: the stream tables by path, the versions of all tables at that moment, and the settings."""

    tables: Mapping[str, ScheduledTable]
    vector: Vector
    poll: timedelta
    parallelism: int


@dataclass(frozen=True)
class Failed:
    """A table was not refreshed. Its readers are skipped for the same reason."""

    reason: str


@dataclass(frozen=True)
class Again:
    """An attempt failed, and may succeed after `pause`. Until then the table takes no worker."""

    pause: timedelta


@dataclass(frozen=True)
class Attempt:
    """The `number`-th attempt, from 1 on, to carry out a task of a cycle, not before some moment."""

    cycle: Cycle
    task: Task
    number: int = 1
    not_before: datetime = ONCE


class Engine(Protocol):
    """The scheduler's interface to the world."""

    def observe(self) -> Observation:
        """Return the current tables, versions and settings, without a Spark job."""

    def refresh(self, task: Task, attempt: int, stopping: Event) -> Refreshed | Failed | Again:
        """Refresh a table; a transient failure may be tried again. Called on a worker's thread."""

    def skip(self, path: str, reason: str) -> None:
        """Record in the table's history that it was skipped."""

    def cancel(self, task: Task) -> None:
        """Make a running refresh fail soon."""

    def alive(self) -> bool:
        """Tell whether Spark still runs."""


@final
class Scheduler:
    """Refreshes the stream tables by their schedules until it is stopped; made by `start_scheduler`.

    Any number of schedulers may serve the same tables. A refresh that another scheduler did first finds nothing to do, or
    conflicts. If one scheduler ends, the others go on. All state is in the tables, except the times of the last tries.
    """

    def __init__(self, engine: Engine, workers: Executor | None = None) -> None:
        self._engine = engine
        self._workers = workers or ThreadPoolExecutor(MOST_WORKERS, thread_name_prefix="streamtable refresh")
        self._thread = Thread(target=self._run, name="streamtable scheduler", daemon=True)
        self._stopping = Event()
        self._ended: SimpleQueue[Callable[[datetime], None]] = SimpleQueue()
        self._cycles: list[Cycle] = []
        self._running: dict[str, tuple[Task, Future[Refreshed | Failed | Again]]] = {}
        self._resting: dict[str, Attempt] = {}
        self._urgency: dict[str, datetime] = {}
        self._tried: dict[str, datetime] = {}
        self._told: dict[str, str] = {}
        self._parallelism = 1
        self._next_look = ONCE
        self._pause = SHORTEST_PAUSE

    @property
    def running(self) -> bool:
        """Tell whether the scheduler serves the tables."""
        return self._thread.is_alive() and not self._stopping.is_set()

    @property
    def refreshing(self) -> list[Task]:
        """Return the tables that are being refreshed now."""
        return [task for task, _ in list(self._running.values())]

    def start(self) -> Scheduler:
        """Start. A stopped scheduler cannot start again."""
        atexit.register(self.stop)
        self._thread.start()
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """Start no further refresh, and wait for running ones. After `timeout` seconds their Spark jobs are cancelled.

        Return whether all could finish. A cancelled refresh leaves its table as it was.
        """
        began = time.monotonic()
        atexit.unregister(self.stop)
        self._stopping.set()
        self._ended.put(lambda now: None)
        if self._thread.is_alive():
            self._thread.join(timeout)
        running = list(self._running.values())
        left = None if timeout is None else max(0.0, began + timeout - time.monotonic())
        _, unfinished = wait([future for _, future in running], left)
        for task, future in running:
            if future in unfinished:
                self._engine.cancel(task)
        self._workers.shutdown(wait=False, cancel_futures=True)
        return not unfinished

    def wait(self, seconds: float) -> bool:
        """Wait until the scheduler is stopped, at most `seconds` seconds; return whether it is stopped."""
        return self._stopping.wait(seconds)

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and self._engine.alive():
                self.turn(datetime.now(timezone.utc))
                self._wait()
        finally:
            self._stopping.set()

    def _wait(self) -> None:
        """Sleep until the next poll or attempt, or until a refresh ends."""
        # While all places are taken, an attempt cannot begin before a refresh ends.
        resting = self._resting.values() if len(self._running) < self._parallelism else ()
        wake = min((attempt.not_before for attempt in resting), default=self._next_look)
        left = (min(wake, self._next_look) - datetime.now(timezone.utc)).total_seconds()
        with suppress(Empty):
            self._ended.get(timeout=max(left, 0.001))(datetime.now(timezone.utc))

    def turn(self, now: datetime) -> None:
        """Process ended refreshes, poll if it is time, and give free workers the most urgent ready tables."""
        while not self._ended.empty():
            self._ended.get()(now)
        if now >= self._next_look:
            try:
                self._look()
                self._pause = SHORTEST_PAUSE
            except Exception:  # whatever it is, it must not end the scheduler
                log.exception("the scheduler cannot look at the tables; it tries again in %s", self._pause)
                self._next_look, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE)
        ready = [(self._urgency[path], partial(self._start, cycle, path)) for cycle in self._cycles for path in cycle.ready()]
        rested = [(path, attempt) for path, attempt in self._resting.items() if attempt.not_before <= now]
        ready += [(self._urgency[path], partial(self._begin, attempt)) for path, attempt in rested]
        for _, begin in sorted(ready, key=itemgetter(0)):
            if len(self._running) < self._parallelism:
                begin()

    def _look(self) -> None:
        observation = self._engine.observe()
        at = observation.vector.at
        tables = {path: replace(table, since=self._since(table, at)) for path, table in observation.tables.items()}
        self._tried = {path: tried for path, tried in self._tried.items() if path in tables}
        busy = {path for cycle in self._cycles for path in cycle.unfinished}
        found = plan(tables, at, busy)
        for path in found.current:
            self._tried[path] = at
            self._told.pop(path, None)
        for path, suspended in found.blocked.items():
            self._tell(path, f"{suspended} is suspended")
        self._urgency |= {work.path: work.deadline for work in found.work}
        if found.work:
            names = {work.path: tables[work.path].name for work in found.work}
            self._cycles.append(Cycle(graph_of(tables.values()), names, observation.vector))
        self._parallelism = observation.parallelism
        self._next_look = min(at + observation.poll, found.wake)

    def _since(self, table: ScheduledTable, now: datetime) -> datetime | None:
        """Return the last refresh or try, whichever is later. For a new table, cron times count from its first poll."""
        if table.since is None and isinstance(table.schedule, Cron):
            self._tried.setdefault(table.path, now)
        return max(filter(None, (table.since, self._tried.get(table.path))), default=None)

    def _start(self, cycle: Cycle, path: str) -> None:
        self._begin(Attempt(cycle, cycle.start(path)))

    def _begin(self, attempt: Attempt) -> None:
        task = attempt.task
        self._resting.pop(task.path, None)
        try:
            future = self._workers.submit(self._engine.refresh, task, attempt.number, self._stopping)
        except RuntimeError:  # the interpreter is shutting down
            self._stopping.set()
            return
        self._running[task.path] = task, future
        future.add_done_callback(lambda done: self._ended.put(partial(self._end, attempt, done)))

    def _end(self, attempt: Attempt, done: Future[Refreshed | Failed | Again], now: datetime) -> None:
        cycle, task = attempt.cycle, attempt.task
        del self._running[task.path]
        self._tried[task.path] = cycle.vector.at
        match Failed(f"{task.name} failed") if done.cancelled() or done.exception() else done.result():
            case Refreshed() as refreshed:
                if self._told.get(task.path) != ELSEWHERE:
                    self._told.pop(task.path, None)
                for path in (*([task.path] if refreshed.skipped else []), *cycle.refreshed(task, refreshed)):
                    self._tell(path, ELSEWHERE)
            case Again(pause):
                self._resting[task.path] = replace(attempt, number=attempt.number + 1, not_before=now + pause)
            case Failed(reason):
                for reader in cycle.failed(task):
                    self._tried[reader] = cycle.vector.at
                    self._tell(reader, reason)
        if not cycle.unfinished:
            self._cycles.remove(cycle)

    def _tell(self, path: str, reason: str) -> None:
        """Record that a table is skipped, unless that is the last record."""
        if self._told.get(path) != reason:
            self._told[path] = reason
            self._engine.skip(path, reason)
