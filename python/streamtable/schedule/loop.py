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
from typing import final
from weakref import WeakSet

from streamtable.language.stream_table.schedule import Cron
from streamtable.schedule.cancelling import cancel_all
from streamtable.schedule.cycle import Cycle, Refreshed, Task
from streamtable.schedule.due import ONCE, ScheduledTable, graph_of, plan
from streamtable.schedule.failures import backoff
from streamtable.schedule.graph import Graph
from streamtable.schedule.interface import Again, Engine, Failed
from streamtable.schedule.signs import Signs

__all__ = ["ELSEWHERE", "Scheduler", "look_now"]

log = logging.getLogger("streamtable.scheduler")

ELSEWHERE = "another session refreshed tables that meet in it meanwhile"
"""The reason of a skipped diamond. It is recorded once: schedulers that share the work would record it in every other cycle."""

MOST_WORKERS = 64
SHORTEST_PAUSE, LONGEST_PAUSE = timedelta(seconds=1), timedelta(minutes=1)
"""The pause between two polls while polls fail, as when the catalog cannot be reached. No sleep is longer, either."""

TICK = timedelta(milliseconds=100)
"""The pause between two looks for commits while a table waits for one."""

MANY = 100
"""For each time so many tables there is a TICK between two looks at least, of which a look costs a small part. Else the deadlines
of many tables, or the commits of many sources, would keep the scheduler looking."""


@dataclass(frozen=True)
class Attempt:
    """The `number`-th attempt, from 1 on, to carry out a task of a cycle, not before some moment."""

    cycle: Cycle
    task: Task
    number: int = 1
    not_before: datetime = ONCE


@final
class Scheduler:
    """Refreshes the stream tables by their schedules until it is stopped; made by `start_scheduler`.

    Any number of schedulers may serve the same tables. A refresh that another scheduler did first finds nothing to do, or
    conflicts. If one scheduler ends, the others go on. All state is in the tables, except the times of the last tries
    and the failures since the last success.
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
        self._suspended = False
        self._urgency: dict[str, datetime] = {}
        self._tried: dict[str, datetime] = {}
        self._told: dict[str, str] = {}
        self._failed: dict[str, tuple[int, timedelta]] = {}
        self._signs = Signs(engine.committed)
        self._graph: Graph | None = None
        self._parallelism = 1
        self._looked = self._next_look = self._soonest = ONCE
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
        _serving.add(self)
        self._thread.start()
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """Start no further refresh, and wait for running ones. After `timeout` seconds their Spark jobs are cancelled.

        Return whether all could finish. A cancelled refresh leaves its table as it was; later jobs of it are cancelled too.
        """
        began = time.monotonic()
        atexit.unregister(self.stop)
        self._stopping.set()
        self._ended.put(lambda now: None)
        if self._thread.is_alive():
            self._thread.join(timeout)
        running = list(self._running.values())
        left = None if timeout is None else max(0.0, began + timeout - time.monotonic())
        wait([future for _, future in running], left)
        self._workers.shutdown(wait=False, cancel_futures=True)
        if unfinished := [(task, future) for task, future in running if not future.done()]:
            cancel_all(self._engine, unfinished)
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
        left = min(min(wake, self._next_look) - datetime.now(timezone.utc), LONGEST_PAUSE).total_seconds()
        left = min(left, TICK.total_seconds()) if self._signs.watched else left
        with suppress(Empty):
            self._ended.get(timeout=max(left, 0.001))(datetime.now(timezone.utc))

    def turn(self, now: datetime) -> None:
        """Process ended refreshes, poll if it is time, and give free workers the most urgent ready tables."""
        while not self._ended.empty():
            self._ended.get()(now)
        if now < self._looked:  # the clock was set back: nothing waits for the time that it had
            self._next_look = self._soonest = now
            self._resting = {path: replace(each, not_before=now) for path, each in self._resting.items()}
        busy = self._busy()
        if now >= self._next_look or self._signs.seen(now, busy):
            self._next_look = max(now, self._soonest)
        if now >= self._next_look:
            self._looked = now
            try:
                self._look(busy)
                self._pause = SHORTEST_PAUSE
            except Exception:  # whatever it is, it must not end the scheduler
                log.exception("the scheduler cannot look at the tables; it tries again in %s", self._pause)
                self._next_look, self._pause = now + self._pause, min(2 * self._pause, LONGEST_PAUSE)
                self._signs.forget()
        if len(self._running) >= self._parallelism:
            return
        ready = [(self._urgency[path], partial(self._start, cycle, path)) for cycle in self._cycles for path in cycle.ready()]
        rested = [(path, attempt) for path, attempt in self._resting.items() if attempt.not_before <= now]
        ready += [(self._urgency[path], partial(self._begin, attempt)) for path, attempt in rested]
        for _, begin in sorted(ready, key=itemgetter(0)):
            if len(self._running) < self._parallelism:
                begin()

    def look_soon(self) -> None:
        """Look at the tables at once."""
        self._ended.put(self._look_by)

    def _look_by(self, at: datetime) -> None:
        self._next_look = min(self._next_look, at)

    def _busy(self) -> dict[str, datetime]:
        """Return the tables that are refreshed, with the moments of the versions that they read."""
        return {path: cycle.vector.at for cycle in self._cycles for path in cycle.unfinished}

    def _look(self, busy: Mapping[str, datetime]) -> None:
        observation = self._engine.observe()
        at = observation.vector.at
        self._suspended = observation.suspended
        if observation.suspended:
            self._rest(at + observation.poll)
            return
        self._forget_gone(observation.tables, busy)
        tables = {path: self._seen(table, at) for path, table in observation.tables.items()}
        self._graph = graph = graph_of(tables.values(), self._graph)
        found = plan(tables, at, busy, graph)
        for path in found.current:
            self._tried[path] = at
            self._told.pop(path, None)
        for path, suspended in found.blocked.items():
            self._tell(path, f"{suspended} is suspended")
        self._urgency |= {work.path: work.deadline for work in found.work}
        if found.work:
            names = {work.path: tables[work.path].name for work in found.work}
            asked = {path: table.request for path, table in tables.items() if table.request}
            self._cycles.append(Cycle(graph, names, observation.vector, asked))
        self._signs.expect(found, busy, observation)
        log.debug("at %s: %s, while %s are refreshed, with %s", at, found, sorted(busy), observation.vector)
        self._parallelism = observation.parallelism
        self._next_look, self._soonest = min(at + observation.poll, found.wake), at + len(tables) // MANY * TICK

    def _forget_gone(self, tables: Mapping[str, ScheduledTable], busy: Mapping[str, datetime]) -> None:
        """Forget what is known of tables that are there no more. A busy one may have been dropped just now."""
        for known in (self._failed, self._tried, self._told, self._urgency):
            for path in known.keys() - tables.keys() - busy.keys():
                del known[path]

    def _rest(self, until: datetime) -> None:
        """Begin nothing until the next look. What runs goes on to its end."""
        for cycle in self._cycles:
            cycle.stop(self._running)
        self._cycles = [cycle for cycle in self._cycles if cycle.unfinished]
        self._resting, self._next_look = {}, until
        self._signs.forget()

    def _seen(self, table: ScheduledTable, now: datetime) -> ScheduledTable:
        """Return a table with what this scheduler knows of its last tries."""
        _, pause = self._failed.get(table.path, (0, table.pause))
        return replace(table, since=self._since(table, now), pause=pause)

    def _since(self, table: ScheduledTable, now: datetime) -> datetime | None:
        """Return the last refresh or try, or this poll: for a new table's cron times, and if the clock was set back since."""
        if table.since is None and isinstance(table.schedule, Cron):
            self._tried.setdefault(table.path, now)
        times = list(filter(None, (table.since, self._tried.get(table.path))))
        if times and min(times) > now:
            self._tried[table.path] = times[0] = now
        return max((each for each in times if each <= now), default=None)

    def _start(self, cycle: Cycle, path: str) -> None:
        due = self._urgency[path]
        self._begin(Attempt(cycle, replace(cycle.start(path), deadline=None if due == ONCE else due)))

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
                self._failed.pop(task.path, None)
                if self._told.get(task.path) != ELSEWHERE:
                    self._told.pop(task.path, None)
                for path in (*([task.path] if refreshed.skipped else []), *cycle.refreshed(task, refreshed)):
                    self._tell(path, ELSEWHERE)
            case Again() if self._suspended:
                cycle.failed(task)
            case Again(pause):
                self._resting[task.path] = replace(attempt, number=attempt.number + 1, not_before=now + pause)
            case Failed(reason):
                number = self._failed.get(task.path, (0, None))[0] + 1
                self._failed[task.path] = number, now - cycle.vector.at + (pause := backoff(number))  # since its begin
                self._look_by(now + pause)  # a table ON UPDATE is tried again then
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


_serving: WeakSet[Scheduler] = WeakSet()
"""The schedulers of this process."""


def look_now() -> None:
    """Have the schedulers of this process look at the tables at once. Those of other processes look when they poll."""
    for each in list(_serving):
        each.look_soon()
