"""A limit for the time in which a thread's Spark jobs may run: beyond it they are cancelled, and so is each that comes."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkContext

__all__ = ["TimeLimit"]

log = logging.getLogger("streamtable.scheduler")

AGAIN = 0.2
"""Seconds between two times that jobs are cancelled: a refresh runs several, one after the other."""


class TimeLimit:
    """So many seconds from now on."""

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
        watcher = Thread(target=self._cancel, args=(tag, ended), name="streamtable time limit", daemon=True)
        self._context.addJobTag(tag)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            self._context.removeJobTag(tag)

    def _cancel(self, tag: str, ended: Event) -> None:
        if ended.wait(max(0.0, self._until - time.monotonic())):
            return
        while True:
            try:
                self._context.cancelJobsWithTag(tag)
            except Py4JError as error:  # of a context that is being stopped
                log.warning("jobs beyond their time cannot be cancelled: %s", error)
            if ended.wait(AGAIN):
                return
