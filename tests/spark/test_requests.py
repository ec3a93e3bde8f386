"""REFRESH ... ASYNC with real tables and schedulers: a request waits, is carried out once, and is found under its id."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, detail, unshared
from tests.spark.test_schedule import TOTALS, current, eventually, write

from streamtable import StreamTables, start_scheduler
from streamtable.catalog.shared import share
from streamtable.errors import StreamTableSuspended


def told(spark: SparkSession, request: str) -> list[tuple[Any, ...]]:
    return answer(spark, f"SELECT name, action, status, initiated_by FROM refresh_history() WHERE request = '{request}'")


def waiting(spark: SparkSession, *names: str) -> list[str]:
    return [key for name in names for key in detail(spark, name)["properties"] if key.startswith("streamtable.request.")]


def test_a_request_waits_for_a_scheduler_and_one_of_two_carries_it_out(hurried: SparkSession) -> None:
    hurried.sql(f"CREATE STREAM TABLE a AS {TOTALS}")
    hurried.sql("CREATE STREAM TABLE b AS SELECT sum(total) AS total FROM a")
    write(hurried, 5)
    rows = answer(hurried, "REFRESH STREAM TABLE b FULL CASCADE ASYNC")
    assert [(name, status) for name, _, status, _ in rows] == [
        ("spark_catalog.shop.b", "REQUESTED"),
        ("spark_catalog.shop.a", "REQUESTED"),
    ]
    ((_, request, *_), (_, same, *_)) = rows
    assert request == same and set(told(hurried, request)) == {
        ("spark_catalog.shop.a", None, "REQUESTED", "REQUEST"),
        ("spark_catalog.shop.b", "FULL", "REQUESTED", "REQUEST"),
    }
    assert StreamTables(hurried).get("b").request_refresh().request == request, "it joins what waits"
    with start_scheduler(hurried), start_scheduler(hurried):
        eventually(lambda: not waiting(hurried, "a", "b"))
        time.sleep(1)
    assert sorted(told(hurried, request)) == [
        ("spark_catalog.shop.a", "DIFFERENTIAL", "COMPLETED", "REQUEST"),
        ("spark_catalog.shop.b", "FULL", "COMPLETED", "REQUEST"),
    ]
    assert_exact(hurried, "b", f"SELECT sum(total) AS total FROM ({TOTALS})")


def test_a_request_that_finds_nothing_or_fails_is_told_and_a_suspended_table_takes_none(hurried: SparkSession) -> None:
    hurried.sql("CREATE STREAM TABLE a AS SELECT 1 AS x")
    hurried.sql("CREATE STREAM TABLE c AS SELECT id, 100 / (id - 77) AS x FROM sales")
    ((_, nothing, *_),) = answer(hurried, "REFRESH STREAM TABLE a ASYNC")
    write(hurried, 77)
    ((_, fails, *_),) = answer(hurried, "REFRESH MATERIALIZED VIEW c ASYNC")
    with start_scheduler(hurried):
        eventually(lambda: not waiting(hurried, "a", "c"))
    assert [row[1:] for row in told(hurried, fails)] == [("FAILED", "FAILED", "REQUEST")]
    assert [row[1:] for row in told(hurried, nothing)] == [("NO_DATA", "COMPLETED", "REQUEST")]
    hurried.sql("ALTER STREAM TABLE a SUSPEND")
    with pytest.raises(StreamTableSuspended):
        hurried.sql("REFRESH STREAM TABLE a ASYNC")
    rows = answer(hurried, "REFRESH STREAM TABLES LIKE 'a' ASYNC")
    assert rows == [("spark_catalog.shop.a", None, "SKIPPED", "the table is suspended")]


def test_schedulers_that_are_suspended_begin_nothing_and_a_request_waits_for_them(hurried: SparkSession) -> None:
    hurried.sql(f"CREATE STREAM TABLE a SCHEDULE '1s' AS {TOTALS}")
    assert answer(hurried, "ALTER SCHEDULER SUSPEND") == [("SUSPENDED",)]
    try:
        assert answer(hurried, "SELECT name, alert FROM alerts()") == [("spark_catalog", "SCHEDULER_SUSPENDED")]
        assert answer(hurried, "SELECT scheduler_suspended FROM stream_tables()") == [(True,)]
        with start_scheduler(hurried):
            write(hurried, 5)
            ((*_, reason),) = answer(hurried, "REFRESH STREAM TABLE a ASYNC")
            assert "ALTER SCHEDULER RESUME" in reason
            time.sleep(3)
            assert waiting(hurried, "a") and not current(hurried, "a")
            assert answer(hurried, "ALTER SCHEDULER RESUME") == [("RUNNING",)]
            eventually(lambda: not waiting(hurried, "a") and current(hurried, "a"))
    finally:
        hurried.sql("ALTER SCHEDULER RESUME")
    assert answer(hurried, "SELECT alert FROM alerts()") == []


@pytest.mark.parametrize("lost", ["gone", "cut off"])
def test_schedulers_run_after_their_switch_was_lost_and_can_be_suspended_again(hurried: SparkSession, lost: str) -> None:
    hurried.sql(f"CREATE STREAM TABLE a SCHEDULE '1s' AS {TOTALS}")
    hurried.sql("ALTER SCHEDULER SUSPEND")
    try:
        with start_scheduler(hurried):
            write(hurried, 5)
            if lost == "gone":
                unshared(hurried, "streamtable.scheduler")
            else:
                share(hurried, "streamtable.scheduler", '{"suspended_si')
            assert answer(hurried, "SELECT scheduler_suspended FROM stream_tables()") == [(False,)]
            eventually(lambda: current(hurried, "a"))
        assert answer(hurried, "ALTER SCHEDULER SUSPEND") == [("SUSPENDED",)]
        assert answer(hurried, "SELECT scheduler_suspended FROM stream_tables()") == [(True,)]
    finally:
        hurried.sql("ALTER SCHEDULER RESUME")
