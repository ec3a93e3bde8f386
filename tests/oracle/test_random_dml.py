"""Random DML on several sources between refreshes; after each refresh every stream table equals its query."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact, bag_of, contents
from tests.oracle.copies import Copies
from tests.oracle.scenario import dropped, planned_once
from tests.oracle.together import together
from tests.oracle.workload import QUERIES, SOURCES, create_sources, kind_and_table, statements

ROUNDS = 2
CHAINED = "chained"
"""The query that reads another stream table: after all others."""
IN_PATTERNS = {
    "inner_join": 1,
    "three_tables": 3,
    "without_key": 5,
    "extremes": 19,
    "distinct_rows": 20,
    "having": 22,
    "deciding": 23,
    "everything": 28,
    "filter_clause": 28,
}
"""Queries that the pipeline leaves to a test of a pattern, by its number, under changes that are chosen for it."""
IN_TURN = [name for name in QUERIES if name not in IN_PATTERNS]


@pytest.fixture
def database(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a test a database of its own."""
    spark.sql("CREATE DATABASE oracle")
    spark.sql("USE oracle")
    yield spark
    dropped(spark, "oracle")


def check(
    spark: SparkSession, seed: int, rounds: int, names: Sequence[str] = tuple(QUERIES), read_twice: Iterable[str] = QUERIES
) -> tuple[set[tuple[str, str]], Counter[str]]:
    """Create queries of these names as stream tables, then change, refresh and compare.

    Return which kinds of statements changed which sources, and how many rows of each stream table came or went. At the end the sources,
    and the stream tables of `read_twice`, are read by their logs as well.
    """
    create_sources(spark, seed)
    copies = Copies(spark, SOURCES)

    def create(name: str) -> None:
        spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")

    def refresh(name: str) -> int:
        done = spark.sql(f"REFRESH STREAM TABLE {name}").first()
        assert done is not None
        assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
        assert_exact(copies.session(), name, QUERIES[name])
        return int(done["rows_inserted"] + done["rows_deleted"])

    first = [name for name in names if name != CHAINED]
    together(create, first)
    create(CHAINED)
    rnd = random.Random(seed + 1)
    changed: set[tuple[str, str]] = set()
    touched: Counter[str] = Counter()
    for _ in range(rounds):
        for statement in statements(rnd):
            kind, table = kind_and_table(statement)
            before = copies.rows()
            with planned_once(spark):
                spark.sql(statement)
            if copies.rows() != before:
                changed.add((kind, table))
        touched.update(dict(zip([*first, CHAINED], [*together(refresh, first), refresh(CHAINED)], strict=True)))
    for name in (*SOURCES, *read_twice):
        assert bag_of(contents(spark, name)) == bag_of(spark.table(name)), f"{name}: a checksum lists other files than the log"
    return changed, touched


@pytest.mark.core
@pytest.mark.timeout(1800)
def test_every_query_stays_exact(database: SparkSession) -> None:
    # Looked for: this seed has every kind of statement, and a round in which rows that changed in l, r and x meet each other.
    changed, touched = check(database, seed=4211, rounds=ROUNDS, names=IN_TURN, read_twice=IN_TURN[::6])
    assert {kind for kind, _ in changed} == {"INSERT", "UPDATE", "DELETE", "MERGE", "INSERT OVERWRITE", "TRUNCATE"}
    assert {table for _, table in changed} == set("lrx")
    assert [name for name in IN_TURN if not touched[name]] == [], "these never changed"


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 120))
def test_every_query_stays_exact_for_long(database: SparkSession, seed: int) -> None:
    changed, touched = check(database, seed=seed, rounds=12)
    assert {table for _, table in changed} == set("lrx")
    assert touched.total() > 100, "the random DML changed next to nothing"
