"""What Spark did for a refresh, by its own books: where this process carried the refresh out, and Spark still knows its jobs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from streamtable.engine.jobs import REFRESH_OF
from streamtable.refresh.history import Line

__all__ = ["Effort", "effort_of"]

_COMMITTING = timedelta(seconds=2)
"""A line tells the time of its commit, and how long the refresh took before it."""


@dataclass(frozen=True)
class Effort:
    """The jobs of a refresh: the rows and bytes that they read, of files and of what was kept, and the time of their tasks."""

    jobs: int
    rows: int
    bytes: int
    ms: int


def effort_of(spark: SparkSession, line: Line, before: Line | None) -> Effort | None:
    """Return what Spark did for the refresh of a line of the history, after the line `before`; None where it knows of no job."""
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    since = max(line.started - _COMMITTING, before.at) if before else line.started - _COMMITTING
    jobs = rows = read = ms = 0
    for job in _jobs(spark, store, f"{REFRESH_OF} {line.name}", since, line.at):
        jobs += 1
        for number in filter(None, job.stageIds().mkString(",").split(",")):
            with suppress(Py4JError):  # Spark forgets stages before their jobs
                stage = store.lastStageAttempt(int(number))
                rows, read, ms = rows + stage.inputRecords(), read + stage.inputBytes(), ms + stage.executorRunTime()
    return Effort(jobs, rows, read, ms) if jobs else None


def _jobs(spark: SparkSession, store: Any, named: str, since: datetime, until: datetime) -> Iterator[Any]:
    """Yield the jobs of that description in a time, the latest first. Delta says what it does behind the description."""
    listed: Any = spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(store.jobsList(None))  # type: ignore[union-attr]
    last = len(listed) - 1
    latest_first = last < 0 or listed[0].jobId() > listed[last].jobId()  # as Spark lists them, and promises nowhere
    for place in range(last + 1) if latest_first else range(last, -1, -1):
        job = listed[place]
        if job.submissionTime().isEmpty():
            continue
        at = datetime.fromtimestamp(job.submissionTime().get().getTime() / 1000, until.tzinfo)
        if at < since:
            return
        text = job.description().get() if job.description().isDefined() else ""
        if at <= until and (text == named or f"{named}:" in text):
            yield job
