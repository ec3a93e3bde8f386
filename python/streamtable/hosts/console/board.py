"""The state that the console shows. Pages read it and start no computation. A thread polls while somebody watches."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from itertools import count
from threading import Event, Lock, Thread
from typing import Protocol

from streamtable.api.answers import Finding
from streamtable.observe.effort import Effort
from streamtable.observe.operators import Node
from streamtable.observe.status import Status
from streamtable.refresh.history import Line
from streamtable.schedule.failures import condition_of, text_of

__all__ = ["Act", "Board", "Contents", "Explained", "Hands", "Job", "Work"]

log = logging.getLogger("streamtable.console")

WATCHED = 60.0
"""Seconds after a request for which somebody counts as watching. An open page asks more often."""
EVERY, REST = 5.0, 4
"""Seconds between two polls, and the least pause as a multiple of the time of the last poll."""
SIDE_BY_SIDE, MOST_WORKS = 4, 50


class Act(str, Enum):
    """The action of a button on a stream table; the value is in the request."""

    REFRESH = "refresh"
    FULL = "full"
    VERIFY = "verify"
    SUSPEND = "suspend"
    RESUME = "resume"


@dataclass(frozen=True)
class Work:
    """A requested action. It runs while `ok` is None; `text` tells its result."""

    id: str
    act: Act
    name: tuple[str, ...]
    by: str
    began: datetime
    ended: datetime | None = None
    ok: bool | None = None
    text: str = ""

    @property
    def group(self) -> str:
        """Return the group of its Spark jobs."""
        return f"streamtable console {self.id}"


@dataclass(frozen=True)
class Job:
    """Running work of Spark: the done tasks of those known so far. `name` is the table of a scheduler's refresh.

    `tag` is that of its jobs. Refreshes by hand have the group of a scheduler's refresh of the same table, and another tag or none.
    """

    group: str
    text: str
    done: int
    tasks: int
    since: datetime | None = None
    name: str | None = None
    tag: str | None = None

    @property
    def key(self) -> str:
        """Return by what it is cancelled: its tag, or its group."""
        return self.tag or self.group


@dataclass(frozen=True)
class Contents:
    """The first rows of a table, as text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True)
class Explained:
    """EXPLAIN: the operators as a tree, what it says beside them, the verdict first, and the last refresh of the table."""

    said: tuple[Finding, ...]
    tree: tuple[Node, ...]
    last: Line | None = None
    effort: Effort | None = None


class Hands(Protocol):
    """The board's interface to the world, which `SparkHands` implements."""

    def look(self, before: Status | None) -> Status:
        """Return what there is now."""

    def jobs(self) -> Sequence[Job]:
        """Return what runs now; cheap."""

    def act(self, act: Act, name: tuple[str, ...], group: str) -> tuple[bool, str]:
        """Carry out an action. Return whether it succeeded, and the text for people. Raises its errors."""

    def cancel(self, key: str) -> None:
        """Make what runs by the key of a job fail soon."""

    def explain(self, name: tuple[str, ...]) -> Explained:
        """Return how each operator of a table is maintained."""

    def rows(self, name: tuple[str, ...]) -> Contents:
        """Return the first rows of a table."""


class Board:
    """The last status, and the requested work."""

    def __init__(self, hands: Hands, read_only: bool = False) -> None:
        self.hands = hands
        self.read_only = read_only
        self.status: Status | None = None
        self.trouble: str | None = None
        self.jobs: tuple[Job, ...] = ()
        self.looks = self.moves = 0
        """Counters of the changes of the status and of the work."""
        self._works: OrderedDict[str, Work] = OrderedDict()
        self._numbers = count(1)
        self._cancelled = set[str]()
        self._lock = Lock()
        self._workers = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="streamtable console")
        self._watched = time.monotonic()
        self._next = 0.0
        self._stopped, self._soon = Event(), Event()

    def start(self) -> Thread:
        """Poll from now on, in a thread."""
        thread = Thread(target=self._run, name="streamtable console board", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """End the thread, and start no further work."""
        self._stopped.set()
        self._soon.set()
        self._workers.shutdown(wait=False, cancel_futures=True)

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def watch(self) -> None:
        """Record that somebody watches a page."""
        asleep = time.monotonic() - self._watched > WATCHED
        self._watched = time.monotonic()
        if asleep:
            self._soon.set()

    @property
    def news(self) -> str:
        """Return a text that changes with each news."""
        return f"{self.looks}.{self.moves}"

    @property
    def works(self) -> list[Work]:
        """Return the requested work, the latest first."""
        with self._lock:
            return list(reversed(self._works.values()))

    def work(self, number: str) -> Work | None:
        with self._lock:
            return self._works.get(number)

    def job_of(self, group: str) -> Job | None:
        """Return the progress of the Spark jobs of a group."""
        return next((each for each in self.jobs if each.group == group), None)

    def begin(self, act: Act, name: tuple[str, ...], by: str) -> Work:
        """Carry out an action on a table in the background. The same action never runs twice at once."""
        with self._lock:
            for each in self._works.values():
                if each.ok is None and (each.act, each.name) == (act, name):
                    return each
            work = Work(str(next(self._numbers)), act, name, by, datetime.now(timezone.utc))
            self._works[work.id] = work
            for old in [each for each in self._works.values() if each.ok is not None][: max(0, len(self._works) - MOST_WORKS)]:
                del self._works[old.id]
        log.info("%s of %s, asked for by %s", act.value, ".".join(name), by)
        self.moves += 1
        self._workers.submit(self._do, work)
        self._soon.set()
        return work

    def _do(self, work: Work) -> None:
        try:
            ok, text = self.hands.act(work.act, work.name, work.group)
        except Exception as error:  # whatever it is, people are to read it
            ok, text = False, f"[{condition_of(error)}] {text_of(error)}"
        self._next = 0.0
        with self._lock:
            self._works[work.id] = replace(work, ended=datetime.now(timezone.utc), ok=ok, text=text)
        self.moves += 1
        self._soon.set()

    def cancel(self, key: str) -> bool:
        """Cancel what runs by a key of a job, or in the group of somebody's work; return whether anything does."""
        under_way = {each.group for each in self.works if each.ok is None} | {each.key for each in self.jobs}
        if not key or key not in under_way:
            return False
        log.info("%s is cancelled", key)
        with self._lock:
            self._cancelled.add(key)
        self.hands.cancel(key)
        self._soon.set()
        return True

    def _run(self) -> None:
        while not self._stopped.is_set():
            if time.monotonic() - self._watched <= WATCHED:
                self.turn(time.monotonic())
            self._soon.wait(1.0)
            self._soon.clear()

    def turn(self, now: float) -> None:
        """Poll the running work, and the status if it is time. Errors are shown beside the last status."""
        try:
            jobs = tuple(self.hands.jobs())
            self._cancel_again({each.key for each in jobs})
            if jobs != self.jobs:
                self.jobs = jobs
                self.moves += 1
            if now < self._next:
                return
            self._next = now + EVERY
            self.status, self.trouble = self.hands.look(self.status), None
            self._next = max(now + EVERY, time.monotonic() + REST * (time.monotonic() - now))
        except Exception as error:  # whatever it is, it must not end the thread
            if (text := text_of(error)) == self.trouble:
                return
            self.trouble = text
            log.warning("the console cannot look at the tables: %s", text)
        self.looks += 1

    def _cancel_again(self, running: set[str]) -> None:
        """Cancel further jobs of what was cancelled, as long as it has jobs or its work runs."""
        under_way = {each.group for each in self.works if each.ok is None}
        with self._lock:
            self._cancelled &= running | under_way
            again = self._cancelled & running
        for key in again:
            self.hands.cancel(key)
