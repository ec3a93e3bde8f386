"""TPC-H, all 22 queries, incremental and exact after rounds of changes on eight tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.copies import Copies
from tests.oracle.together import together
from tests.tpch.data import TABLES, changes, load
from tests.tpch.queries import QUERIES


@pytest.fixture
def database(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE tpch")
    spark.sql("USE tpch")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE tpch CASCADE")


def check(spark: SparkSession, folder: Path, scale: float, rounds: int) -> None:
    """Create all queries, change, refresh, and compare each with Spark's own answer."""
    load(spark, folder, scale)
    copies = Copies(spark, TABLES)
    moved: set[str] = set()

    def create(name: str) -> None:
        spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")

    def refresh(name: str) -> None:
        done = spark.sql(f"REFRESH STREAM TABLE {name}").first()
        assert done is not None
        assert done["action"] == "DIFFERENTIAL", done
        if done["rows_inserted"] + done["rows_deleted"]:
            moved.add(name)
        assert_exact(copies.session(), name, QUERIES[name])

    together(create, QUERIES)
    for r in range(rounds):
        for statement in changes(r):
            spark.sql(statement)
        together(refresh, QUERIES)
    assert len(moved) >= 14, f"the changes reached too few queries: {sorted(moved)}"


@pytest.mark.timeout(1800)
def test_tpch_stays_exact(database: SparkSession, tmp_path: Path) -> None:
    check(database, tmp_path, scale=0.01, rounds=1)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_tpch_stays_exact_for_ten_rounds(database: SparkSession, tmp_path: Path) -> None:
    check(database, tmp_path, scale=0.1, rounds=10)
