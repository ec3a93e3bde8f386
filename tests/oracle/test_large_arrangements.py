"""Arrangements too large to be read whole, changes too large for the driver: only the states near the affected groups are looked into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.oracle.scenario import Scenario

from streamtable.catalog.entries import load
from streamtable.engine import limits
from streamtable.engine.workspace import Workspace
from streamtable.errors import RefreshError
from streamtable.language.names import Name
from streamtable.refresh.frontier import Frontier

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


def test_states_near_the_affected_groups_are_enough(berlin: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LARGE_ARRANGEMENT", 0)
    monkeypatch.setattr(limits, "DRIVER_ROWS", 0)
    with Scenario(berlin) as scenario:
        scenario.source("l", "k INT, name STRING, day DATE, at TIMESTAMP, v DECIMAL(10, 2)")
        scenario.change(
            "INSERT INTO l SELECT id % 50, concat('n', id % 7), date_add(DATE'2026-01-01', CAST(id % 20 AS INT)), "
            "timestamp_micros(1761435000000000 + id % 30 * 600000000), id / 4 FROM range(300)"
        )
        for name, query in QUERIES.items():
            scenario.stream(name, query)
        scenario.step("INSERT INTO l VALUES (7, 'n1', NULL, TIMESTAMP'2025-10-26 00:30:00Z', 1.25), (NULL, NULL, NULL, NULL, NULL)")
        scenario.step(
            "DELETE FROM l WHERE k BETWEEN 7 AND 9",
            "INSERT INTO l VALUES (51, 'n9', DATE'2027-01-01', NULL, -3)",
            "UPDATE l SET v = v + 1, at = TIMESTAMP'2025-10-26 01:30:00Z' WHERE k < 3 OR k IS NULL",
        )


def test_the_driver_does_not_hold_a_change_that_the_log_takes_for_a_small_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    keep = Workspace.persist

    def kept_by_executors(self: Workspace, frame: DataFrame) -> DataFrame:
        kept.append(frame)
        return keep(self, frame)

    monkeypatch.setattr(limits, "DRIVER_ROWS", 200)
    monkeypatch.setattr(Workspace, "persist", kept_by_executors)
    with Scenario(spark) as scenario:
        # How many rows a feed holds is told by its bytes and the size of a row, which the one row that is left exaggerates.
        without_vectors = "'delta.enableChangeDataFeed'='true', 'delta.enableDeletionVectors'='false'"
        scenario.source("l", "k INT, v BIGINT", properties=without_vectors)
        scenario.change("INSERT INTO l SELECT id, id FROM range(3000)")
        scenario.source("r", "k INT, w INT", "(7, 1), (8, 2)")
        scenario.stream("joined", "SELECT l.k, l.v, r.w FROM l JOIN r ON l.k = r.k")
        scenario.step("DELETE FROM l WHERE k <> 7")
    assert kept, "2,999 rows went through the driver"


def test_nothing_is_read_to_be_joined_with_what_turns_out_to_be_empty(spark: SparkSession) -> None:
    with Workspace(spark) as held:
        for rows in (1, limits.DRIVER_ROWS + 1):
            empty = held.materialise(spark.range(10).where("id * id > 100"), rows)
            joined = empty.join(spark.range(1000).distinct(), "id")
            assert str(joined._jdf.queryExecution().optimizedPlan()).startswith("LocalRelation <empty>")


def test_a_change_too_large_for_the_memory_is_computed_in_full(spark: SparkSession) -> None:
    largest, conf = "spark.driver.maxResultSize", spark.sparkContext._jsc.sc().conf()  # which each stage asks
    with Scenario(spark) as scenario:
        scenario.source("l", "k BIGINT", "(1), (2)")
        scenario.change("INSERT INTO l SELECT id FROM range(40000)")
        for name, mode in {"auto": "AUTO", "told": "DIFFERENTIAL"}.items():
            scenario.stream(name, "SELECT count(*) AS n FROM (SELECT k FROM l GROUP BY k HAVING count(*) > 1)", mode=mode)
        scenario.change("INSERT INTO l SELECT 3 * id FROM range(20000)")
        before = conf.get(largest, "1g")
        conf.set(largest, "20k")
        try:
            done = scenario.refresh("auto", "FULL")
            with pytest.raises(RefreshError, match=largest):
                spark.sql("REFRESH STREAM TABLE told")
        finally:
            conf.set(largest, before)
        assert done["reason"].startswith("a differential refresh takes more memory than there is: ")
        assert largest in done["reason"]
        frontier = Frontier.of(load(spark, Name(("auto",))).state.frontier)
        assert frontier is not None
        attempt, full = frontier.runs[-2:]
        assert (attempt.differential, full.differential) == (True, False)
        assert attempt.ms > full.ms, "what the attempt led to is what it cost"
        scenario.refresh("told", "DIFFERENTIAL")
