"""Rows that go, in files that hold deleted rows already: by one column, by whole rows, in partitions, under mapped column names."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario

from streamtable.algebra.columns import Column
from streamtable.engine import limits, locate
from streamtable.engine.netting import NET
from streamtable.engine.workspace import Workspace


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        rows = ", ".join(f"({n}, {n % 3}, 'v{n % 5}')" for n in range(40))
        scenario.source("t", "id INT, part INT, v STRING", rows)
        yield scenario


def test_what_is_appended_to_a_join_looks_for_no_row(s: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    s.source("u", "id INT, w STRING", "(1, 'a'), (2, 'b')")
    s.stream("joined", "SELECT t.id, t.v, u.w FROM t JOIN u ON t.id = u.id")

    def looks(*_: object) -> None:
        raise AssertionError("a row is looked for")

    with monkeypatch.context() as patched:
        for place, name in (("differential", "measure"), ("table_change", "locate")):
            patched.setattr(f"streamtable.refresh.{place}.{name}", looks)
        s.step("INSERT INTO t VALUES (1, 1, 'new'), (50, 1, 'alone')", "INSERT INTO u VALUES (3, 'c')")
        s.change("DELETE FROM u WHERE id = 2")
        with pytest.raises(Exception, match="a row is looked for"):
            s.refresh("joined")
    s.refresh("joined")


LAYOUTS = {
    "plain": "",
    "parted": "PARTITIONED BY (part)",
    "mapped": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '3', 'delta.minWriterVersion' = '7')",
}


@pytest.mark.parametrize(
    ("handed_out", "layouts"),
    [
        (limits.BROADCAST_ROWS, ["parted"]),
        (0, ["mapped"]),
        *(pytest.param(rows, [*LAYOUTS], marks=pytest.mark.fuzz) for rows in (limits.BROADCAST_ROWS, 0)),
    ],
)
def test_rows_go_again_and_again(s: Scenario, handed_out: int, layouts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "BROADCAST_ROWS", handed_out)
    for name in layouts:
        query = "SELECT id, part, v FROM t"
        s.spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL {LAYOUTS[name]} AS {query}")
        s.queries[name] = query
    s.stream("equal_rows", "SELECT part, v FROM t")
    s.step("DELETE FROM t WHERE id % 4 = 0")
    s.step("UPDATE t SET v = 'new' WHERE id % 4 = 1")
    # Rows that are equal to ones which are deleted in the same files: those must not be found again.
    s.step("INSERT INTO t VALUES (0, 0, 'v0'), (4, 1, 'v4')", "DELETE FROM t WHERE id = 5")
    s.step("DELETE FROM t WHERE id IN (0, 4, 7)")
    s.step("UPDATE t SET part = 2 - part WHERE id > 20")
    verdicts = [s.spark.sql(f"VERIFY STREAM TABLE {name}").collect()[0]["ok"] for name in s.queries]
    assert all(verdicts)


def test_the_column_that_most_likely_tells_all_rows_apart_is_tried_first(spark: SparkSession) -> None:
    columns = [Column("a", "often", "BIGINT"), Column("b", "always", "INT"), Column("c", "never", "BIGINT")]
    with Workspace(spark) as workspace:
        rows = spark.range(1000).selectExpr("id % 850 AS a", "CAST(id AS INT) AS b", "id % 10 AS c", f"-1 AS {NET}")
        workspace.name("delta", rows)
        found = locate.measure(workspace, "delta", columns, None).probes
    assert [(probe.name, least, most) for probe, least, most in found] == [("always", "0", "999"), ("often", "0", "849")]


def test_rows_are_found_by_a_time_that_a_clock_shows_twice(spark: SparkSession) -> None:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with Scenario(spark) as s:
            first = 1792888200  # half past two on 2026-10-25, before clocks are set back
            s.source(
                "events", "at TIMESTAMP, v INT", ", ".join(f"(timestamp_seconds({first + 60 * n}), {n % 3})" for n in range(90))
            )
            s.stream("kept", "SELECT at, v FROM events")
            s.step(f"DELETE FROM events WHERE unix_seconds(at) BETWEEN {first + 600} AND {first + 3900}")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
