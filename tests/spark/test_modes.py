"""Queries under settings, and of views under other settings than their own, whose differential refresh has to mean the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import answer

ANSI, CROSS_JOIN, TYPE, ZONE = (
    f"spark.sql.{each}" for each in ("ansi.enabled", "crossJoin.enabled", "timestampType", "session.timeZone")
)


@pytest.fixture
def s(spark: SparkSession) -> Iterator[SparkSession]:
    with planned_once(spark):
        spark.sql("CREATE DATABASE modes")
        spark.sql("USE modes")
        yield spark
    dropped(spark, "modes")


@contextmanager
def under(s: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {key: str(s.conf.get(key)) for key in settings}
    for key, value in settings.items():
        s.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            s.conf.set(key, value)


def create(s: SparkSession, query: str) -> None:
    s.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {query}")


def maintained(s: SparkSession, *changes: str) -> None:
    """Change the sources, and see that the refresh is differential and exact."""
    for change in changes:
        s.sql(change)
    assert answer(s, "REFRESH STREAM TABLE st")[0][1] == "DIFFERENTIAL"
    assert answer(s, "VERIFY STREAM TABLE st")[0][1:] == (True, 0, 0)


def test_the_clock_is_an_instant_where_timestamps_have_no_zone(s: SparkSession) -> None:
    s.sql("CREATE TABLE e (k INT, at TIMESTAMP) USING delta")
    with under(s, {ZONE: "America/New_York", TYPE: "TIMESTAMP_NTZ"}):
        create(s, "SELECT k, at FROM e WHERE at > current_timestamp() - INTERVAL 1 HOUR")
        maintained(s, "INSERT INTO e VALUES (1, current_timestamp())")
    assert answer(s, "SELECT k FROM st") == [(1,)]


def test_the_latest_instant_beside_distinct_values_where_timestamps_have_no_zone(s: SparkSession) -> None:
    s.sql("CREATE TABLE e (k INT, v INT, at TIMESTAMP) USING delta")
    with under(s, {ZONE: "America/New_York", TYPE: "TIMESTAMP_NTZ"}):
        create(s, "SELECT k, count(DISTINCT v) AS n, max(at) AS latest FROM e GROUP BY k")
        maintained(s, "INSERT INTO e VALUES (1, 1, current_timestamp()), (1, 2, current_timestamp())")
        maintained(s, "DELETE FROM e WHERE v = 2")


def test_a_sum_of_all_rows_where_products_are_refused(s: SparkSession) -> None:
    s.sql("CREATE TABLE e (v INT) USING delta")
    s.sql("INSERT INTO e VALUES (1)")
    with under(s, {CROSS_JOIN: "false"}):
        create(s, "SELECT count(*) AS n, sum(v) AS s FROM e")
        maintained(s, "INSERT INTO e VALUES (2)")
    assert answer(s, "SELECT n, s FROM st") == [(2, 3)]


def test_a_running_sum_of_all_digits(s: SparkSession) -> None:
    s.sql("CREATE TABLE e (id INT, k INT, v DECIMAL(28,8)) USING delta")
    s.sql("INSERT INTO e VALUES (1, 1, 0.00000001), (2, 1, 0.00000001)")
    create(s, "SELECT id, k, sum(v) OVER (PARTITION BY k ORDER BY id) AS total FROM e")
    maintained(s, "INSERT INTO e VALUES (3, 1, 0.00000001)")


@pytest.mark.parametrize(
    "value", ["IF(id DIV 50 % 2 = 0, 0.0D, -0.0D)", "IF(id DIV 50 % 2 = 0, 'a', 'A') COLLATE UTF8_LCASE"], ids=["zeros", "collated"]
)
@pytest.mark.parametrize("order", ["", " ORDER BY id DIV 100"], ids=["whole", "running"])
def test_the_greatest_of_values_that_are_equal_and_not_the_same(s: SparkSession, value: str, order: str) -> None:
    s.sql(
        "CREATE TABLE e USING delta AS SELECT /*+ REPARTITION(4) */ CAST(id AS INT) AS id, CAST(id % 50 AS INT) AS g, id AS n FROM range(400)"
    )
    shown = f"SELECT g, CAST(max(z) OVER (PARTITION BY g{order}) AS STRING) AS m FROM (SELECT id, g, {value} AS z FROM e)"
    create(s, f"SELECT g, m, count(*) AS n FROM ({shown}) GROUP BY g, m")
    with under(s, {"spark.sql.shuffle.partitions": "7"}):
        maintained(s, "DELETE FROM e WHERE id >= 350", "OPTIMIZE e")


def test_a_sum_of_a_view_that_overflows_in_another_way_than_the_query(s: SparkSession) -> None:
    s.sql("CREATE TABLE e (k INT, d DECIMAL(38,0), n BIGINT) USING delta")
    s.sql(f"INSERT INTO e VALUES (1, CAST('-9{'0' * 37}' AS DECIMAL(38,0)), 1)")
    s.sql("CREATE VIEW strict AS SELECT k, sum(d) AS s, count(*) AS n FROM e GROUP BY k")
    with under(s, {ANSI: "false"}):
        s.sql("CREATE VIEW lax AS SELECT k, sum(n) AS s FROM e GROUP BY k")
        create(s, "SELECT k, s, n FROM strict")
        maintained(s, "UPDATE e SET d = -d")
    assert answer(s, "SELECT s > 0 FROM st") == [(True,)]
    s.sql("DROP STREAM TABLE st")
    create(s, "SELECT k, s FROM lax")
    maintained(s, "INSERT INTO e VALUES (1, 0, 9223372036854775807)")
    assert answer(s, "SELECT s FROM st") == [(-(2**63),)]


def test_distinct_values_beside_a_sum_of_a_view_that_overflows_in_another_way(s: SparkSession) -> None:
    s.sql("CREATE TABLE e (k INT, m INT, n BIGINT) USING delta")
    s.sql("INSERT INTO e VALUES (1, 1, 9223372036854775807), (1, 2, 1)")
    with under(s, {ANSI: "false"}):
        s.sql("CREATE VIEW lax AS SELECT k, count(DISTINCT m) AS d, sum(n) AS s FROM e GROUP BY k")
    create(s, "SELECT * FROM lax")
    maintained(s, "INSERT INTO e VALUES (1, 3, 1)", "DELETE FROM e WHERE m = 2")
    assert answer(s, "SELECT s FROM st") == [(-(2**63),)]
