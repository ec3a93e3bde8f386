"""What Spark did for a refresh, by its books."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.observe.effort import Effort, effort_of
from streamtable.refresh.choose import Action
from streamtable.refresh.history import Line
from streamtable.refresh.records import Record

NOW = datetime(2026, 11, 29, 6, tzinfo=timezone.utc)


def option(value: object) -> SimpleNamespace:
    return SimpleNamespace(isEmpty=lambda: value is None, isDefined=lambda: value is not None, get=lambda: value)


def job(number: int, seconds: float, text: str | None) -> SimpleNamespace:
    """Return a job of two stages that began so many seconds before now."""
    at = 1000 * (NOW - timedelta(seconds=seconds)).timestamp()
    return SimpleNamespace(
        jobId=lambda: number,
        submissionTime=lambda: option(SimpleNamespace(getTime=lambda: at)),
        description=lambda: option(text),
        stageIds=lambda: SimpleNamespace(mkString=lambda separator: separator.join((str(2 * number), str(2 * number + 1)))),
    )


JOBS = [
    job(0, 500, "refresh of c.s.t"),
    job(1, 100, None),
    job(2, 61, "refresh of c.s.t"),
    job(3, 9, "refresh of c.s.t"),
    job(4, 8, "refresh of c.s.t: Delta: reading"),
    job(5, 8, "refresh of c.s.t2"),
    job(6, 7, "refresh of c.s.t"),
    job(7, 1, "VERIFY c.s.t"),
]


def session(jobs: list[SimpleNamespace]) -> Any:
    stage = SimpleNamespace(inputRecords=lambda: 10, inputBytes=lambda: 100, executorRunTime=lambda: 5)
    store = SimpleNamespace(jobsList=lambda statuses: jobs, lastStageAttempt=lambda number: stage)
    converters = SimpleNamespace(asJava=lambda found: found)
    context = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store)))
    jvm = SimpleNamespace(scala=SimpleNamespace(jdk=SimpleNamespace(javaapi=SimpleNamespace(CollectionConverters=converters))))
    return SimpleNamespace(sparkContext=context, _jvm=jvm)


def line(seconds: float, took: int) -> Line:
    return Line("c.s.t", 7, NOW - timedelta(seconds=seconds), Record(Action.DIFFERENTIAL, "few", took, {}))


@pytest.mark.parametrize("jobs", [JOBS, JOBS[::-1]], ids=["the first job first", "the latest job first, as Spark lists them"])
def test_the_jobs_of_the_last_refresh_are_found_among_older_ones(jobs: list[SimpleNamespace]) -> None:
    assert effort_of(session(jobs), line(5, 4000), line(60, 1000)) == Effort(3, 60, 600, 30)
    assert effort_of(session(jobs), line(5, 4000), None) == Effort(3, 60, 600, 30)
    assert effort_of(session(jobs), line(300, 4000), line(400, 1000)) is None
    assert effort_of(session([]), line(5, 4000), None) is None
