"""Every generator of Spark, by name, where rows come, change and go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario

GENERATORS = {
    "explode_outer(ar)": "v",
    "explode(m)": "key, value",
    "posexplode(ar)": "p, v",
    "posexplode_outer(ar)": "p, v",
    "inline(st)": "x, y",
    "inline_outer(st)": "x, y",
    "stack(2, id, 'one', size(ar), 'two')": "n, name",
    "json_tuple(j, 'a', 'b')": "a, b",
}


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    with Scenario(spark) as scenario:
        yield scenario


def test_every_generator_stays_exact(s: Scenario) -> None:
    s.source("t", "id INT, ar ARRAY<INT>, st ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, INT>, j STRING")
    row = """SELECT {0}, array({0}, NULL, 7), array(named_struct('x', {0}, 'y', 'a'), NULL), map('p', {0}, 'q', NULL), '{{"a": {0}, "b": "z"}}'"""
    s.spark.sql(f"INSERT INTO t {row.format(1)} UNION ALL {row.format(2)} UNION ALL SELECT 3, array(), NULL, map(), 'no json'")
    for n, (generator, names) in enumerate(GENERATORS.items()):
        s.stream(f"rows_{n}", f"SELECT t.id, e.* FROM t LATERAL VIEW {generator} e AS {names}")
    s.stream("in_select", "SELECT id, posexplode_outer(m) AS (p, key, value) FROM t")
    s.stream("as_relation", "SELECT t.id, e.*, f.c0 FROM t, LATERAL inline_outer(t.st) e, LATERAL json_tuple(t.j, 'a') f")
    done = s.step(
        f"INSERT INTO t {row.format(4)}",
        "UPDATE t SET ar = NULL, st = array(), m = map('r', 5), j = '{\"b\": 8}' WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
    )
    assert all(each["rows_inserted"] and each["rows_deleted"] for each in done), done
