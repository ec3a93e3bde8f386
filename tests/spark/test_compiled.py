"""What differs from one refresh to the next is no part of the code that Spark makes of its queries: it is compiled once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import Scenario

from streamtable.engine.workspace import Workspace
from streamtable.sessions import internal
from streamtable.sql.builder import alias, cast, column, literal, select, string, table

QUERIES = {
    "filtered": "SELECT id, v FROM t WHERE v > 100",
    "outer_joined": "SELECT t.id, t.v, u.w FROM t LEFT JOIN u ON t.id = u.id",
}
CODEGEN = "spark.sql.codegen."
TYPES = {
    "TINYINT": "-128",
    "SMALLINT": "7",
    "INT": "2147483647",
    "BIGINT": "-9223372036854775808",
    "DECIMAL(9,2)": "-1.50",
    "DECIMAL(38,5)": "12345678901234567890.12345",
    "DATE": "0001-01-01",
    "TIMESTAMP": "2026-03-29T02:30:00.000001+00:00",
    "TIMESTAMP_NTZ": "2026-03-29 02:30:00.5",
    "STRING": "it's \\n",
}


@contextmanager
def compiling(spark: SparkSession, compiles: bool = True) -> Iterator[None]:
    """Have Spark compile its queries, which the tests' sessions do not, and those that refreshes make from now on."""
    settings = {
        CODEGEN + "factoryMode": "CODEGEN_ONLY" if compiles else "NO_CODEGEN",
        CODEGEN + "wholeStage": str(compiles).lower(),
    }
    before = {key: str(spark.conf.get(key)) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(internal, "_INHERITED", (*internal._INHERITED, *settings))
            patched.setattr(internal, "_idle", [])  # these sessions are for nobody else
            yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def compiled(spark: SparkSession) -> int:
    jvm = spark._jvm
    assert jvm
    count: int = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount()
    return count


def test_a_refresh_compiles_nothing_that_one_before_it_did(spark: SparkSession) -> None:
    with Scenario(spark) as s:
        s.source("t", "id BIGINT, v INT", ", ".join(f"({n}, {n % 201})" for n in range(400)))
        s.source("u", "id BIGINT, w DATE", ", ".join(f"({n}, '2026-01-{1 + n % 28:02}')" for n in range(0, 400, 3)))
        for name, query in QUERIES.items():
            s.stream(name, query)
        found = []
        for turn in range(3):
            s.change(f"UPDATE t SET v = v + 1 WHERE id % 10 = {turn}", f"UPDATE u SET w = w + {turn + 1} WHERE id % 9 = {turn * 3}")
            with compiling(spark):
                before = compiled(spark)
                for name in QUERIES:
                    assert spark.sql(f"REFRESH STREAM TABLE {name}").collect()[0].action == "DIFFERENTIAL"
                found.append(compiled(spark) - before)
        assert found[0] and not found[-1], found
        for name, query in QUERIES.items():
            assert_exact(spark, name, query)


@pytest.mark.parametrize("compiles", [True, False])
def test_a_literal_of_a_refresh_is_the_same_as_any(spark: SparkSession, compiles: bool) -> None:
    with compiling(spark, compiles), Workspace(spark) as workspace:
        three = table(workspace.name("three", spark.range(3)))
        for kind, text in TYPES.items():
            items = [alias(literal(text, kind), "a"), alias(cast(string(text), kind), "b")]
            found = workspace.query(select(items, three.copy())).collect()
            assert [each.a for each in found] == [each.b for each in found] != [None, None, None], kind
        greater = exp.GT(this=column("id"), expression=literal("0", "BIGINT"))
        assert [each.id for each in workspace.query(select([column("id")], three.copy()).where(greater)).collect()] == [1, 2]


def test_parquets_reader_sees_it(spark: SparkSession) -> None:
    with Scenario(spark) as s:
        s.source("t", "id BIGINT", "(1), (2), (3)")
        with Workspace(spark) as workspace:
            workspace.name("rows", spark.table("t"))
            greater = exp.GTE(this=column("id"), expression=literal("2", "BIGINT"))
            found = workspace.query(select([column("id")], table("rows")).where(greater))
            plan = found._jdf.queryExecution().executedPlan().toString()
            assert "GreaterThanOrEqual(id,2)" in plan
            assert sorted(each.id for each in found.collect()) == [2, 3]
