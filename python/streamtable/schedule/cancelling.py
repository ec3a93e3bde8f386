"""Work that takes longer than it may: its Spark jobs are cancelled until it has ended.

Spark cancels what runs at that moment, and a refresh runs several jobs, one after the other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkContext

from streamtable.schedule.cycle import Refreshed, Task
from streamtable.schedule.interface import Again, Engine, Failed

__all__ = ["CANCEL_AGAIN", "TimeLimit", "cancel_all"]

log = logging.getLogger("streamtable.scheduler")

CANCEL_AGAIN = timedelta(milliseconds=200)
"""The pause between two cancels of what takes longer than it may."""

_STOPPED = (Py4JError, OSError, AttributeError)
"""Errors of a Spark context that is being stopped, or is."""


class TimeLimit:
    """So many seconds from now on for a thread's Spark jobs."""

    def __init__(self, context: SparkContext, seconds: float) -> None:
        self.seconds = seconds
        self._context, self._until = context, time.monotonic() + seconds

    def over(self) -> bool:
        """Tell whether the time has passed."""
        return time.monotonic() >= self._until

    @contextmanager
    def held(self) -> Iterator[None]:
        """Cancel this thread's Spark jobs in the block when the time has passed. Their tag is ours, their group is not."""
        tag, ended = f"streamtable-{uuid4().hex}", Event()
        self._context.addJobTag(tag)
        left = max(0.0, self._until - time.monotonic())
        watcher = _until(ended.wait, lambda: self._context.cancelJobsWithTag(tag), left)
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            self._context.removeJobTag(tag)


def cancel_all(engine: Engine, unfinished: Sequence[tuple[Task, Future[Refreshed | Failed | Again]]]) -> None:
    """Cancel refreshes now, and on a thread of its own until all have ended."""

    def cancel() -> None:
        for task, future in unfinished:
            if not future.done():
                engine.cancel(task)

    def ended(seconds: float) -> bool:
        return not wait([future for _, future in unfinished], seconds).not_done or not engine.alive()

    _tried(cancel)
    _until(ended, cancel, CANCEL_AGAIN.total_seconds())


def _until(ended: Callable[[float], bool], cancel: Callable[[], None], after: float) -> Thread:
    """Start the thread that cancels after so many seconds, and again, until the work has ended: `ended` waits for that."""

    def run() -> None:
        pause = after
        while not ended(pause):
            _tried(cancel)
            pause = CANCEL_AGAIN.total_seconds()

    thread = Thread(target=run, name="streamtable cancels", daemon=True)
    thread.start()
    return thread


def _tried(cancel: Callable[[], None]) -> None:
    try:
        cancel()
    except _STOPPED as error:  # the work ends with Spark
        log.warning("jobs beyond their time cannot be cancelled: %s", error)
