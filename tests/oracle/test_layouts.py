"""A sample of what `--layouts` does to every query of the tests, and that it would find a fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp
from tests.oracle.layouts import LAYOUTS, trying

from streamtable.differentiate import aggregate_step
from streamtable.errors import InternalError

SAMPLE = {each: LAYOUTS[each] for each in ("feed", "partitioned")}
BOTH = {each: LAYOUTS[each] for each in ("partitioned, feed",)}
"""What the two of SAMPLE have, at once: half the time for queries of several sources."""


@pytest.fixture
def sources(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE layouts")
    spark.sql("USE layouts")
    for table in "sm":
        spark.sql(f"CREATE TABLE {table} (k INT, v INT) USING delta")
        spark.sql(f"INSERT INTO {table} VALUES (NULL, 1), (1, 2), (2, 3)")
    spark.sql("CREATE VIEW vw AS SELECT k, v + 1 AS w FROM m")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE layouts CASCADE")


def test_a_query_is_created_over_each_layout_and_refreshed_after_each_change(sources: SparkSession) -> None:
    with trying(sources, SAMPLE) as happened:
        sources.sql("CREATE STREAM TABLE d FROZEN WHERE (k = 1) AS SELECT * FROM s")
    assert happened == {"feed": 2, "partitioned": 2}
    with trying(sources, BOTH) as happened:
        sources.sql(
            "CREATE STREAM TABLE a AS SELECT s.k, count(*) AS n, max(w) AS w FROM s LEFT JOIN vw ON s.k <=> vw.k GROUP BY s.k"
        )
        sources.sql("CREATE STREAM TABLE b AS SELECT k, v FROM a CROSS JOIN (SELECT v FROM s)")
        sources.sql(f"CREATE STREAM TABLE c AS SELECT k FROM delta.`{path_of(sources, 's')}`")
    assert happened == {"partitioned, feed": 8, "left out": 1}


def test_a_fault_in_one_layout_is_found(sources: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sources.sql("CREATE TABLE n USING delta AS SELECT CAST(NULL AS INT) AS k, 1 AS v")  # whichever row changes, its key is NULL
    monkeypatch.setattr(aggregate_step, "equal", lambda left, right: exp.EQ(this=left, expression=right))
    with (
        trying(sources, SAMPLE),
        pytest.raises((AssertionError, InternalError), match=r"(feed|partitioned), after \w+ of spark_catalog.layouts_"),
    ):
        sources.sql("CREATE STREAM TABLE a AS SELECT k, count(*) AS rows FROM n GROUP BY k")


def path_of(spark: SparkSession, table: str) -> str:
    return str(spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["location"]).removeprefix("file:")
