"""The oracle must notice a known bug that is put back; else its silence means nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from sqlglot import exp
from tests.oracle.comparison import assert_exact

from streamtable.algebra.operators import Operator
from streamtable.differentiate import aggregate
from streamtable.differentiate.deltas import Deltas

JOINED = "SELECT a.k, b.w FROM na a JOIN nb b ON a.k = b.k"
GROUPED = "SELECT k, count(*) AS n FROM na GROUP BY k"


@pytest.fixture
def sources(spark: SparkSession) -> Iterator[SparkSession]:
    for name in ("na", "nb"):
        spark.sql(f"CREATE OR REPLACE TABLE {name} (k INT, w INT) USING delta")
        spark.sql(f"INSERT INTO {name} VALUES (1, 1), (NULL, 2)")
    yield spark
    for name in ("joined", "grouped"):
        spark.sql(f"DROP STREAM TABLE IF EXISTS {name}")
    for name in ("na", "nb"):
        spark.sql(f"DROP TABLE {name}")


def _change(spark: SparkSession, name: str, query: str) -> None:
    spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
    for table in ("na", "nb"):
        spark.sql(f"INSERT INTO {table} VALUES (2, 5), (NULL, 5)")
    spark.sql(f"REFRESH STREAM TABLE {name}")


def test_the_cross_term_counted_twice_is_noticed(sources: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def new_instead_of_old(_: Deltas, operator: Operator) -> Operator:
        return operator

    monkeypatch.setattr(Deltas, "old", new_instead_of_old)
    _change(sources, "joined", JOINED)
    with pytest.raises(AssertionError, match="surplus"):
        assert_exact(sources, "joined", JOINED)


def test_ignored_null_keys_are_noticed(sources: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(left: exp.Expr, right: exp.Expr) -> exp.Expr:
        return exp.EQ(this=left, expression=right)

    monkeypatch.setattr(aggregate, "equal", plain)
    _change(sources, "grouped", GROUPED)
    with pytest.raises(AssertionError, match="missing"):
        assert_exact(sources, "grouped", GROUPED)


def test_without_the_bugs_both_are_exact(sources: SparkSession) -> None:
    _change(sources, "joined", JOINED)
    _change(sources, "grouped", GROUPED)
    for table in ("na", "nb"):
        sources.sql(f"DELETE FROM {table} WHERE k IS NULL")
    for name, query in (("joined", JOINED), ("grouped", GROUPED)):
        sources.sql(f"REFRESH STREAM TABLE {name}")
        assert_exact(sources, name, query)
