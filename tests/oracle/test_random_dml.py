"""Random DML on several sources between refreshes; after each refresh every stream table equals its query."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.together import together
from tests.oracle.workload import QUERIES, create_sources, statements

ROUNDS = 2
CHAINED = "chained"
"""The query that reads another stream table: after all others."""


@pytest.fixture
def database(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a test a database of its own."""
    spark.sql("CREATE DATABASE oracle")
    spark.sql("USE oracle")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE oracle CASCADE")


def check(spark: SparkSession, seed: int, rounds: int) -> None:
    """Create all queries as stream tables, then change, refresh and compare."""
    create_sources(spark, seed)

    def create(name: str) -> None:
        spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")
        assert_exact(spark, name, QUERIES[name])

    def refresh(name: str) -> int:
        done = spark.sql(f"REFRESH STREAM TABLE {name}").first()
        assert done is not None
        assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
        assert_exact(spark, name, QUERIES[name])
        return int(done["rows_inserted"] + done["rows_deleted"])

    together(create, (name for name in QUERIES if name != CHAINED))
    create(CHAINED)
    rnd = random.Random(seed + 1)
    touched = 0
    for _ in range(rounds):
        for statement in statements(rnd):
            spark.sql(statement)
        touched += sum(together(refresh, (name for name in QUERIES if name != CHAINED))) + refresh(CHAINED)
    assert touched > 20, "the random DML changed next to nothing"
    for name in reversed(QUERIES):
        spark.sql(f"DROP STREAM TABLE {name}")


@pytest.mark.timeout(1800)
def test_every_query_stays_exact(database: SparkSession) -> None:
    check(database, seed=7, rounds=ROUNDS)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 120))
def test_every_query_stays_exact_for_long(database: SparkSession, seed: int) -> None:
    check(database, seed=seed, rounds=12)
