"""The progress of a statement, for people who wait for it: the tasks of its Spark jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

__all__ = ["watched"]

EVERY = 1.0
"""Seconds between two polls of Spark. A server of Spark Connect reports by itself, every 2 seconds."""


@contextmanager
def watched(spark: SparkSession, show: Callable[[str, float | None], object], every: float = EVERY) -> Iterator[None]:
    """While the block runs statements on this thread, call `show` from time to time with their progress.

    `show` gets a line, and the done share of the tasks known so far, None before the first task. A statement that is done before
    the first poll is not reported. After the block `show` is not called.
    """
    started = time.monotonic()

    def tell(completed: int, tasks: int) -> None:
        of_tasks = f"{completed} of {tasks} tasks, " if tasks else ""
        show(f"{of_tasks}{time.monotonic() - started:.0f} s", completed / tasks if tasks else None)

    with _reported(spark, tell) if not isinstance(spark, SparkSession) else _polled(spark.sparkContext, tell, every):
        yield


@contextmanager
def _polled(context: SparkContext, tell: Callable[[int, int], None], every: float) -> Iterator[None]:
    """Poll the jobs of this thread from another one. A tag marks them, because their group is the table's, or the user's own."""
    tag, ended = f"streamtable-{uuid4().hex}", Event()
    spark: Any = context._jsc.sc()

    def look() -> None:
        while not ended.wait(every):
            with suppress(Py4JError):  # Spark forgets old jobs, between the two questions too
                jobs = [spark.statusStore().job(number) for number in spark.statusTracker().getJobIdsForTag(tag)]
                tell(sum(job.numCompletedTasks() + job.numSkippedTasks() for job in jobs), sum(job.numTasks() for job in jobs))

    watcher = Thread(target=look, name="streamtable progress", daemon=True)
    context.addJobTag(tag)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        context.removeJobTag(tag)


@contextmanager
def _reported(remote: Any, tell: Callable[[int, int], None]) -> Iterator[None]:
    """Pass on what the server reports; it does so only while tasks run."""

    def handler(*, stages: Any, done: bool, **_: Any) -> None:
        if not done:
            tell(sum(stage.num_completed_tasks for stage in stages), sum(stage.num_tasks for stage in stages))

    remote.registerProgressHandler(handler)
    try:
        yield
    finally:
        remote.removeProgressHandler(handler)
