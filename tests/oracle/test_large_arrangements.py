"""Arrangements too large to be read whole, changes too large for the driver: only the states near the touched groups are looked into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario

from streamtable.refresh import differential, workspace

QUERIES = {
    "by_number": "SELECT k, count(*) AS n, sum(v) AS s FROM l GROUP BY k",
    "by_text_and_day": "SELECT name, day, count(*) AS n, max(v) AS m FROM l GROUP BY name, day",
    "by_struct": "SELECT named_struct('k', k, 'd', day) AS g, min(v) AS m FROM l GROUP BY named_struct('k', k, 'd', day)",
    "by_instant": "SELECT at, avg(v) AS a FROM l GROUP BY at",
    "joined_groups": "SELECT a.k, a.n, l.v FROM (SELECT k, count(*) AS n FROM l GROUP BY k) a JOIN l ON a.k = l.k",
}


@pytest.fixture
def berlin(spark: SparkSession) -> Iterator[SparkSession]:
    """Set a time zone with an hour that is there twice, when clocks are put back: two instants are spelled the same."""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.unset("spark.sql.session.timeZone")


def test_states_near_the_touched_groups_are_enough(berlin: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differential, "_LARGE", 0)
    monkeypatch.setattr(workspace, "FEW", 0)
    with Scenario(berlin) as scenario:
        scenario.source("l", "k INT, name STRING, day DATE, at TIMESTAMP, v DECIMAL(10, 2)")
        scenario.change(
            "INSERT INTO l SELECT id % 50, concat('n', id % 7), date_add(DATE'2026-01-01', CAST(id % 20 AS INT)), "
            "timestamp_micros(1761435000000000 + id % 30 * 600000000), id / 4 FROM range(300)"
        )
        for name, query in QUERIES.items():
            scenario.stream(name, query)
        scenario.step("INSERT INTO l VALUES (7, 'n1', NULL, TIMESTAMP'2025-10-26 00:30:00Z', 1.25), (NULL, NULL, NULL, NULL, NULL)")
        scenario.step("DELETE FROM l WHERE k BETWEEN 7 AND 9", "INSERT INTO l VALUES (51, 'n9', DATE'2027-01-01', NULL, -3)")
        scenario.step("UPDATE l SET v = v + 1, at = TIMESTAMP'2025-10-26 01:30:00Z' WHERE k < 3 OR k IS NULL")
