"""Reading a subscription part by part: a number of rows, or the rows of a span of time."""

from __future__ import annotations

import time
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement
from streamtable.language.subscribe.ast import Subscribe
from streamtable.subscribing.rows import RowFormat
from streamtable.subscribing.subscription import Subscription

__all__ = ["ALL", "Cursor", "Taken", "Turn"]

ALL = 2**31 - 1  # a Java list holds no more

_PATIENCE = 10.0
"""Seconds for which a FETCH waits for the one before. A cancelled FETCH ends a moment later than its client believes."""

R_contra = TypeVar("R_contra", contravariant=True)


class Taken(Protocol[R_contra]):
    """A list of rows that fills itself from iterators of the kind `R_contra`."""

    def __len__(self) -> int: ...

    def again(self) -> Any:
        """Iterate over the rows."""
        ...

    def take(self, rows: R_contra, count: int) -> bool:
        """Move at most `count` rows; tell whether there were as many."""
        ...


class Cursor(Generic[R_contra]):
    """A subscription and the position of its reader."""

    def __init__(self, spark: SparkSession, statement: Subscribe, form: RowFormat[Any]) -> None:
        self.subscription: Subscription[Any] = Subscription(spark, statement, form)
        self._reading = Lock()
        self._unread: list[Any] = []  # iterators over rows that were computed, the next one first
        self._untouched: Any = None  # the one that came last, as long as no row of it was moved

    def fetch(self, into: Taken[R_contra], count: int, timeout: float | None) -> None:
        """Move at most `count` rows: the rows of the next `timeout` seconds, or, without a timeout, the next rows that come.

        An ended subscription moves no rows. Neither does a FETCH that fails, that is cancelled or that is interrupted.
        """
        until = None if timeout is None else time.monotonic() + timeout
        with Turn(self._reading):
            try:
                while len(into) < count:
                    if self._take(into, count):
                        continue
                    left = None if until is None else until - time.monotonic()
                    if self.subscription.ended or len(into) == count or (len(into) > 0 if left is None else left <= 0):
                        break
                    self.subscription.pause(left)
            except BaseException:
                self._unread.insert(0, into.again())
                raise

    def drain(self, into: Taken[R_contra], *, wait: bool) -> None:
        """Move all rows up to the end, and wait for it; without an end, move the rows so far."""
        while not self.subscription.ended:
            if not self._take(into, ALL) and not self.subscription.ended:
                if not wait:
                    break
                self.subscription.pause()

    def _take(self, into: Taken[R_contra], count: int) -> bool:
        """Move the rows so far; tell whether more may follow at once."""
        if not self._unread:
            rows = self.subscription.next()
            if rows is None:
                return False
            self._unread.append(rows)
            self._untouched = rows
        rows, before = self._unread[0], len(into)
        try:
            if not into.take(rows, count - before):
                self._unread.pop(0)
        except BaseException as error:
            untouched = rows is self._untouched and len(into) == before
            self._unread.pop(0)  # it may go on behind what it could not give
            self.subscription.fail(error, untouched)
        if rows is self._untouched and len(into) > before:
            self._untouched = None
        return len(into) < count


class Turn:
    """Admit one reader at a time, because two would share the rows. A second one is refused after a moment."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        if not self._lock.acquire(timeout=_PATIENCE):
            raise InvalidStatement("another thread is reading this subscription", hint="make one for each thread")

    def __exit__(self, *_: object) -> None:
        self._lock.release()
