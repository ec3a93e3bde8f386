"""Rows that the driver holds: a leaf that rules of Spark pass by, which is taken for no other and ends as Spark's own relation."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.oracle.scenario import Scenario

from streamtable.engine import limits
from streamtable.engine.workspace import Workspace


def leaves(frame: DataFrame, phase: str) -> list[str]:
    plan = getattr(frame._jdf.queryExecution(), phase)()
    return [plan.collectLeaves().apply(n).nodeName() for n in range(plan.collectLeaves().size())]


def are_cached(*frames: DataFrame) -> list[bool]:
    return [each.storageLevel.useMemory for each in frames]


@pytest.mark.parametrize(
    ("rows", "analyzed"), [(0, "LocalRelation"), (1000, "LocalRelation"), (1001, "HeldRows"), (limits.DRIVER_ROWS, "HeldRows")]
)
def test_held_rows_end_as_a_relation_of_sparks(spark: SparkSession, rows: int, analyzed: str) -> None:
    with Workspace(spark) as workspace:
        held = workspace.materialise(spark.range(rows).selectExpr("id", "id % 7 AS v"))
        assert leaves(held, "analyzed") == [analyzed]
        assert leaves(held, "optimizedPlan") == ["LocalRelation"]
        assert leaves(held.where("v > 7").join(spark.range(5), "id"), "optimizedPlan") == ["LocalRelation"]  # seen to be empty
        assert (held.count(), held.where("v = 0").count()) == (rows, -(-rows // 7))
        name = workspace.name("held", held)
        assert workspace.extents(name) == ({"id": ("0", str(rows - 1)), "v": ("0", "6")} if rows else {})
        assert spark.sql("SELECT count(*) FROM held a JOIN held b ON a.id = b.id + 1").collect()[0][0] == max(rows - 1, 0)


@pytest.mark.parametrize("rows", [0, limits.DRIVER_ROWS + 1])
def test_a_plan_over_kept_rows_ends_at_them(spark: SparkSession, rows: int) -> None:
    with Workspace(spark) as workspace:
        deep = spark.range(rows).join(spark.range(limits.DRIVER_ROWS), "id", "left").selectExpr("id", "id % 7 AS v")
        held = workspace.materialise(deep, limits.DRIVER_ROWS + 1)
        kept = workspace.persist(grouped := deep.groupBy("v").count())
        assert leaves(held, "analyzed") == ["InMemoryRelation" if rows else "LocalRelation"]
        assert leaves(kept, "analyzed") == ["InMemoryRelation"]
        assert are_cached(deep, grouped) == [True, True]
        assert (held.count(), workspace.count(held)) == (rows, rows)
        assert held.alias("a").join(held.alias("b"), "id").count() == held.join(kept, "v").count() == rows
        assert kept.count() == min(rows, 7)
        name = workspace.name("held", held)
        assert workspace.extents(name) == ({"id": ("0", str(rows - 1)), "v": ("0", "6")} if rows else {})
    assert are_cached(deep, grouped) == [False, False]


@pytest.mark.parametrize(("rows", "leaf"), [(limits.DRIVER_ROWS, "HeldRows"), (limits.DRIVER_ROWS + 1, "InMemoryRelation")])
def test_more_rows_than_expected(spark: SparkSession, rows: int, leaf: str) -> None:
    with Workspace(spark) as workspace:
        held = workspace.materialise(spark.range(rows).selectExpr("id", "id % 7 AS v"), 10)
        assert leaves(held, "analyzed") == [leaf]
        assert held.agg({"id": "max"}).collect()[0][0] == rows - 1


def test_no_partition_is_read_on_once_there_are_too_many_rows(spark: SparkSession) -> None:
    with Workspace(spark) as workspace:
        rows = spark.range(0, 3 * limits.DRIVER_ROWS, 1, 1).selectExpr(
            f"if(id < {2 * limits.DRIVER_ROWS}, id, raise_error('read on')) AS id"
        )
        assert workspace._held.expected(rows._jdf, limits.DRIVER_ROWS) is None


def test_held_rows_of_the_same_columns_are_not_each_other(spark: SparkSession) -> None:
    with Workspace(spark) as workspace:
        first, second = (workspace.materialise(spark.range(start, start + 2000)) for start in (0, 10_000))
        kept = first.persist()
        try:
            assert kept.agg({"id": "min"}).collect()[0][0] == 0
            assert second.agg({"id": "min"}).collect()[0][0] == 10_000
            assert first.union(second).distinct().count() == 4000
        finally:
            kept.unpersist()


def test_a_change_of_some_thousand_rows_is_exact(spark: SparkSession) -> None:
    with Scenario(spark) as s:
        s.source("t", "id INT, k INT, v INT", "(1, 1, 1)")
        s.source("names", "k INT, name STRING", "(0, 'a'), (1, 'b'), (2, 'c')")
        s.stream("joined", "SELECT t.id, n.name, o.v FROM t JOIN names n ON t.k = n.k JOIN t o ON o.id = t.v")
        s.stream("grouped", "SELECT n.name, count(*) AS n, max(t.v) AS most FROM t JOIN names n ON t.k = n.k GROUP BY n.name")
        s.stream("lonely", "SELECT k, name FROM names WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.k = names.k)")
        s.step("INSERT INTO t SELECT id, id % 3, id + 1 FROM range(2, 5000)", "INSERT INTO names VALUES (3, 'd')")
        s.step("UPDATE t SET v = v - 2, k = 1 WHERE id % 2 = 0", "DELETE FROM names WHERE name = 'c'")
        s.step("DELETE FROM t WHERE id > 1500", "UPDATE names SET name = 'x' WHERE k = 3")
