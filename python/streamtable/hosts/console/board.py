"""What the console shows, kept here: a page reads it and makes nobody compute. A thread looks while somebody watches."""

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
from streamtable.observe.status import Status
from streamtable.schedule.failures import condition_of, text_of

__all__ = ["Act", "Board", "Contents", "Hands", "Job", "Work"]

log = logging.getLogger("streamtable.console")

WATCHED = 60.0
"""For so many seconds after a request somebody counts as watching; an open page asks more often."""
EVERY, REST = 5.0, 4
"""Seconds between two looks, and how many times as long as the last look they are at least."""
SIDE_BY_SIDE, MOST_WORKS = 4, 50


class Act(str, Enum):
    """What a button does with a stream table; the value is in the request."""

    REFRESH = "refresh"
    FULL = "full"
    VERIFY = "verify"
    SUSPEND = "suspend"
    RESUME = "resume"


@dataclass(frozen=True)
class Work:
    """What somebody asked for here: under way while `ok` is None. `text` tells how it ended."""

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
    """What Spark works on now, whoever asked: the tasks done so far of those that are known; `name` where the scheduler did."""

    group: str
    text: str
    done: int
    tasks: int
    since: datetime | None = None
    name: str | None = None


@dataclass(frozen=True)
class Contents:
    """The first rows of a table, as text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


class Hands(Protocol):
    """What the board needs of the world; `SparkHands` has it."""

    def look(self, before: Status | None) -> Status:
        """Return what there is now."""

    def jobs(self) -> Sequence[Job]:
        """Return what runs now; cheap."""

    def act(self, act: Act, name: tuple[str, ...], group: str) -> tuple[bool, str]:
        """Do it, and return whether that is good news, and the news. Raises what goes wrong."""

    def cancel(self, group: str) -> None:
        """Make what runs in a group fail soon."""

    def explain(self, name: tuple[str, ...]) -> Sequence[Finding]:
        """Return how each operator of a table is maintained."""

    def rows(self, name: tuple[str, ...]) -> Contents:
        """Return the first rows of a table."""


class Board:
    """The status as it was last seen, and the work that was asked for here."""

    def __init__(self, hands: Hands, read_only: bool = False) -> None:
        self.hands = hands
        self.read_only = read_only
        self.status: Status | None = None
        self.trouble: str | None = None
        self.jobs: tuple[Job, ...] = ()
        self.looks = self.moves = 0
        """They count what changed: the status, and the work."""
        self._works: OrderedDict[str, Work] = OrderedDict()
        self._numbers = count(1)
        self._cancelled = set[str]()
        self._lock = Lock()
        self._workers = ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="streamtable console")
        self._watched = time.monotonic()
        self._next = 0.0
        self._stopped, self._soon = Event(), Event()

    def start(self) -> Thread:
        """Look from now on, in a thread."""
        thread = Thread(target=self._run, name="streamtable console board", daemon=True)
        thread.start()
        return thread

    def stop(self) -> None:
        """End the thread, and begin no work any more."""
        self._stopped.set()
        self._soon.set()
        self._workers.shutdown(wait=False, cancel_futures=True)

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def watch(self) -> None:
        """Say that somebody is looking at a page."""
        asleep = time.monotonic() - self._watched > WATCHED
        self._watched = time.monotonic()
        if asleep:
            self._soon.set()

    @property
    def news(self) -> str:
        """Return a text that is another one when something is new."""
        return f"{self.looks}.{self.moves}"

    @property
    def works(self) -> list[Work]:
        """Return what was asked for here, the latest first."""
        with self._lock:
            return list(reversed(self._works.values()))

    def work(self, number: str) -> Work | None:
        with self._lock:
            return self._works.get(number)

    def job_of(self, group: str) -> Job | None:
        """Return how far the Spark jobs of a group are."""
        return next((each for each in self.jobs if each.group == group), None)

    def begin(self, act: Act, name: tuple[str, ...], by: str) -> Work:
        """Do something with a table, in the background; the same thing is not begun twice at a time."""
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

    def cancel(self, group: str) -> bool:
        """Cancel what runs in a group of Spark jobs; return whether anything does."""
        under_way = {each.group for each in self.works if each.ok is None} | {each.group for each in self.jobs}
        if not group or group not in under_way:
            return False
        log.info("%s is cancelled", group)
        with self._lock:
            self._cancelled.add(group)
        self.hands.cancel(group)
        self._soon.set()
        return True

    def _run(self) -> None:
        while not self._stopped.is_set():
            if time.monotonic() - self._watched <= WATCHED:
                self.turn(time.monotonic())
            self._soon.wait(1.0)
            self._soon.clear()

    def turn(self, now: float) -> None:
        """Look at what runs, and at everything if it is time; what goes wrong is shown, with what was seen last."""
        try:
            jobs = tuple(self.hands.jobs())
            self._cancel_again({each.group for each in jobs})
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
        """Cancel the jobs that began in a cancelled group since, as long as it has any or its work is under way."""
        under_way = {each.group for each in self.works if each.ok is None}
        with self._lock:
            self._cancelled &= running | under_way
            again = self._cancelled & running
        for group in again:
            self.hands.cancel(group)
