"""Values that Spark's equality takes for one and that are not the same: the zeros, spellings under a collation, maps in another order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario

TYPE_CHECK = "spark.databricks.delta.schema.typeCheck.enabled"
COLUMNS = "k INT, d DOUBLE, a ARRAY<FLOAT>, m MAP<STRING, DOUBLE>, n MAP<STRING, INT>, st STRUCT<x: DOUBLE, y: MAP<INT, STRING>>, v VARIANT"
SEEN = "k, CAST(d AS STRING) AS d, CAST(a AS STRING) AS a, CAST(m AS STRING) AS m, map_keys(n) AS n, to_json(st) AS st, to_json(v) AS v"
KEPT = {
    "as_they_are": "SELECT * FROM t",
    "spelt": f"SELECT {SEEN} FROM t",
    "zeros": "SELECT d, count(*) AS n FROM t GROUP BY d",
    "maps": "SELECT n, count(*) AS c, max(k) AS k FROM t GROUP BY n",
    "some_of_each": "SELECT k, sort_array(collect_list(CAST(d AS STRING))) AS l, max(d) AS d FROM t GROUP BY k",
    "of_all": "SELECT k, d, a, sum(k) OVER (PARTITION BY k % 2) AS r FROM t",
}
ROWS = (
    "(1, 0.0D, array(0.0F), map('a', 0.0D, 'b', 1.0D), map('a', 1, 'b', 2), named_struct('x', 0.0D, 'y', map(1, 'q', 2, 'r')), parse_json('0.0')),"
    "(2, 1.0D, array(1.0F), NULL, map('c', 3), NULL, parse_json('{\"a\": 1}')),"
    "(3, CAST('NaN' AS DOUBLE), NULL, map('a', 0.0D), NULL, named_struct('x', -0.0D, 'y', NULL), NULL)"
)
MOVES = (
    (
        (
            "UPDATE t SET d = -0.0D, a = array(-0.0F), m = map('a', -0.0D, 'b', 1.0D), n = map('b', 2, 'a', 1), "
            "st = named_struct('x', -0.0D, 'y', map(2, 'r', 1, 'q')) WHERE k = 1"
        ),
        "INSERT INTO t SELECT * FROM t WHERE k = 2",
    ),
    ("UPDATE t SET d = 0.0D, n = map('b', 2, 'a', 1), v = parse_json('{\"a\": 1.5}') WHERE k = 2", "DELETE FROM t WHERE k = 3"),
)


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    spark.conf.set(TYPE_CHECK, "false")
    with Scenario(spark) as scenario:
        yield scenario
    spark.conf.unset(TYPE_CHECK)


def seen(s: Scenario, relation: str) -> Counter[str]:
    """Return all that SQL tells of the rows of a relation with the columns of `t`."""
    return Counter(map(str, s.spark.sql(f"SELECT {SEEN}, map_values(n) AS x FROM {relation}").collect()))


def test_values_that_are_equal_and_not_the_same_are_told_apart(s: Scenario) -> None:
    s.source("t", COLUMNS, properties="")  # whole files come and go: what stayed is netted out
    s.spark.sql(f"INSERT INTO t SELECT * FROM VALUES {ROWS}")
    for name, query in KEPT.items():
        s.stream(name, query)
    for statements in MOVES:
        for statement in statements:
            s.spark.sql(statement)
        for name in KEPT:
            s.refresh(name)
        assert seen(s, "as_they_are") == seen(s, "t")
        assert all(s.spark.sql(f"VERIFY STREAM TABLE {name}").first()["ok"] for name in ("as_they_are", "maps"))  # type: ignore[index]


def test_spellings_that_a_collation_holds_equal_are_not_the_same(s: Scenario) -> None:
    s.source("c", "k INT, c STRING COLLATE UTF8_LCASE", "(2, 'x'), (3, 'y')")
    s.stream("plain", "SELECT k, c FROM c")
    s.stream("greatest", "SELECT max(c) AS m FROM c WHERE k = 2", mode="AUTO")
    s.stream("groups", "SELECT c, count(*) AS n FROM c GROUP BY c", mode="AUTO")
    s.stream("kinds", "SELECT DISTINCT c FROM c", mode="AUTO")
    s.change("UPDATE c SET c = 'X' WHERE k = 2")
    s.refresh("plain")
    assert "cannot store" in s.refresh("greatest", "FULL")["reason"]
    for name in ("groups", "kinds"):
        assert "collation" in s.refresh(name, "FULL")["reason"]
    assert s.rows("groups") == [("X", 1), ("y", 1)]
    s.stream("folded", "SELECT lower(CAST(c AS STRING)) AS c, count(*) AS n FROM c GROUP BY lower(CAST(c AS STRING))")
    s.change("INSERT INTO c VALUES (4, 'Y')")
    s.refresh("folded", "DIFFERENTIAL")
    assert s.rows("folded") == [("x", 1), ("y", 2)]
