"""AUTO recomputes where a delta would cost more: by a share that is set, or by what earlier refreshes took."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact

from streamtable.catalog.entries import load
from streamtable.language.names import Name
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.phases import Phase

SHARE = "spark.streamtable.auto.fullShare"
QUERY = "SELECT k, count(*) AS n FROM events GROUP BY k"


@pytest.fixture
def events(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(SHARE)
    spark.sql("CREATE DATABASE cost")
    spark.sql("USE cost")
    properties = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'false'"
    spark.sql(f"CREATE TABLE events USING delta TBLPROPERTIES ({properties}) AS SELECT id, id % 7 AS k FROM range(40000)")
    spark.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    yield spark
    spark.conf.set(SHARE, str(before))
    spark.sql("USE default")
    spark.sql("DROP DATABASE cost CASCADE")


def refreshed(spark: SparkSession, statement: str) -> tuple[str, str]:
    spark.sql(statement)
    done = spark.sql("REFRESH STREAM TABLE st").first()
    assert done is not None
    assert_exact(spark, "st", QUERY)
    return done["action"], done["reason"]


@pytest.mark.parametrize("mode", ["FULL", "DIFFERENTIAL"])
def test_the_time_of_a_refresh_is_the_time_until_its_rows_are_written(events: SparkSession, mode: str) -> None:
    """Spark computes the rows of a join or of a projection when they are written: the history left nearly all of the time out."""
    slow = "SELECT id, sha2(repeat(CAST(id AS STRING), 2000), 512) AS h FROM events"
    events.sql(f"CREATE OR REPLACE STREAM TABLE st REFRESH MODE {mode} AS {slow}")
    events.sql("INSERT INTO events SELECT id, 1 FROM range(40000, 80000)")
    (done,) = events.sql("REFRESH STREAM TABLE st").collect()
    assert done["action"] == mode
    (kept,) = events.sql("SELECT duration_ms, phases FROM refresh_history('st', 1)").collect()
    phases = json.loads(kept["phases"])
    assert {"analyse", "write"} <= phases.keys() <= {each.value for each in Phase}
    assert abs(sum(phases.values()) - kept["duration_ms"]) <= len(phases), "they add up, but for what is rounded"
    entry = load(events, Name(("cost", "st")))
    frontier = Frontier.of(entry.state.frontier)
    assert frontier is not None
    learnt = frontier.runs[-1]
    assert learnt.differential is (mode == "DIFFERENTIAL") and learnt.ms <= kept["duration_ms"] <= done["duration_ms"]
    assert learnt.ms > 0.5 * done["duration_ms"], (learnt.ms, done["duration_ms"])


def test_another_query_is_measured_when_the_table_is_rebuilt(events: SparkSession) -> None:
    events.conf.set(SHARE, "learnt")
    query = "SELECT k, count(*) AS n, max(id) AS last FROM events GROUP BY k"
    events.sql(f"CREATE OR REPLACE STREAM TABLE st AS {query}")
    for id_ in range(3):
        events.sql(f"DELETE FROM events WHERE id = {id_}")
        events.sql("REFRESH STREAM TABLE st")
    assert_exact(events, "st", query)
    (last, *before) = events.sql("SELECT reason, action FROM refresh_history('st', 4)").collect()
    assert "estimated" in last["reason"]  # which of the two the machine decides
    assert [row["action"] for row in before] == ["DIFFERENTIAL", "DIFFERENTIAL", "REINITIALIZE"]


def test_auto_counts_what_changed_and_learns_what_it_costs(events: SparkSession) -> None:
    events.conf.set(SHARE, "0.5")
    many, few = "INSERT INTO events SELECT id, 1 FROM range(50000)", "UPDATE events SET k = 8 WHERE id < 10"
    said = "50,000 changed rows for 90,000 rows, most of them in spark_catalog.cost.events, over the limit of 50%"
    assert refreshed(events, many) == ("FULL", said)
    assert refreshed(events, few)[0] == "DIFFERENTIAL"

    events.sql("ALTER TABLE events SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    action, reason = refreshed(events, few.replace("8", "9"))  # its file is rewritten, but the rows mostly stay
    assert action == "DIFFERENTIAL", reason
    events.sql("ALTER TABLE events SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    assert refreshed(events, few)[0] == "DIFFERENTIAL"

    events.conf.set(SHARE, "learnt")
    action, reason = refreshed(events, "DELETE FROM events WHERE id < 5")  # two differential ones and a full one have been seen
    assert "estimated" in reason, reason
    assert action in ("DIFFERENTIAL", "FULL")  # the machine decides

    events.conf.set(SHARE, "a lot")
    with pytest.raises(Exception, match="'a lot'"):
        refreshed(events, few)
    events.conf.set(SHARE, "0.5")
    assert refreshed(events, "DELETE FROM events WHERE id < 7")[0] == "DIFFERENTIAL"
    events.conf.set(SHARE, "0")
    assert refreshed(events, "OPTIMIZE events") == ("NO_DATA", "no row of a source changed")
