"""Every operator of Spark SQL under random DML: incremental in each round, and equal to the query after it.

In CI those that no other test has (IN_PATTERNS, ELSEWHERE), by `./run fuzz` all.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.copies import Copies
from tests.oracle.queries_of_all_kinds import QUERIES
from tests.oracle.scenario import planned_once
from tests.oracle.together import together
from tests.oracle.workload import SOURCES, create_sources, statements

from streamtable.engine import limits

IN_PATTERNS = {
    "full_outer": 7,
    "outer_under_groups": 8,
    "exists": 10,
    "not_exists": 10,
    "in_under_or": 12,
    "in_two_columns": 13,
    "scalar_uncorrelated": 15,
    "lateral": 16,
    "lateral_left": 16,
    "exists_in_case": 17,
    "scalar_max": 17,
    "intersect": 30,
    "intersect_all": 30,
    "except": 30,
    "except_all": 30,
    "union": 30,
    "coerced_sets": 30,
    "ranks": 33,
    "two_partitions": 33,
    "rows_frame": 33,
    "over_groups": 33,
    "walk": 41,
}
"""Queries of which a test of a pattern, by its number, keeps the same operator under changes that are chosen for it."""

ELSEWHERE = {
    "left_outer": "tests/oracle/test_appends.py, left_outer",
    "left_semi": "tests/spark/test_patterns_operators.py, test_pattern_10_exists_with_both_sides_changed",
    "left_anti": "tests/oracle/test_appends.py, anti",
    "one_name_in_two_tables": "tests/spark/test_patterns_aggregates.py, test_columns_of_one_name_in_two_tables_are_aggregated_apart",
    "distinct_in_two_tables": "tests/spark/test_patterns_aggregates.py, test_columns_of_one_name_in_two_tables_are_aggregated_apart",
    "outer_of_groups": "tests/spark/test_patterns_aggregates.py, test_pattern_27_chained_joins_on_aggregates_into_a_populated_group",
    "in_rows": "tests/spark/test_patterns_operators.py, test_pattern_12_several_subqueries_under_or",
    "not_in_with_nulls": "tests/spark/test_patterns_operators.py, test_pattern_13_not_in_with_nulls_on_either_side",
    "nested_exists": "tests/tpch, q20",
    "scalar_in_filter": "tests/tpch, q2",
    "scalar_count": "tests/oracle/test_clock.py, scalar",
    "cube": "tests/oracle/test_every_function.py, of_levels",
    "sessions": "tests/oracle/test_sessions.py, by_key",
    "sessions_of_all": "tests/oracle/test_sessions.py, alone",
    "row_number": "tests/oracle/test_running_windows.py, numbered",
    "lag_and_lead": "tests/oracle/test_running_windows.py, ahead",
    "without_partition": "tests/oracle/test_running_windows.py, of_all",
    "qualify": "tests/oracle/test_running_windows.py, first_of_each",
    "top": "tests/oracle/test_metamorphic.py, top",
    "top_offset": "tests/oracle/test_followers.py, top",
}
"""Queries whose operator another test keeps, under changes of its own."""


@pytest.fixture
def database(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a test a database of its own."""
    spark.sql("CREATE DATABASE all_of_sql")
    spark.sql("USE all_of_sql")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE all_of_sql CASCADE")


def check(spark: SparkSession, seed: int, rounds: int, names: Collection[str] = QUERIES.keys()) -> None:
    """Create queries as stream tables, then change, refresh and compare; name every one that is wrong."""
    create_sources(spark, seed)
    copies = Copies(spark, SOURCES)
    moved: set[str] = set()

    def create(name: str) -> None:
        spark.sql(f"CREATE STREAM TABLE `{name}` REFRESH MODE DIFFERENTIAL AS {QUERIES[name]}")

    def refresh(name: str) -> None:
        done = spark.sql(f"REFRESH STREAM TABLE `{name}`").first()
        assert done is not None
        assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
        if done["rows_inserted"] + done["rows_deleted"]:
            moved.add(name)
        assert_exact(copies.session(), name, QUERIES[name])

    together(create, names)
    rnd = random.Random(seed + 1)
    for _ in range(rounds):
        with planned_once(spark):
            for statement in statements(rnd):
                spark.sql(statement)
        together(refresh, names)
    assert len(moved) > len(names) / 3, "the random DML changed too little"


@pytest.mark.timeout(1800)
def test_all_of_sql_stays_exact(database: SparkSession) -> None:
    rest = [name for name in QUERIES if name not in IN_PATTERNS and name not in ELSEWHERE]
    check(database, seed=11, rounds=1, names=rest)  # its one round changes both l and r


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(300, 310))
def test_all_of_sql_stays_exact_for_long(database: SparkSession, seed: int) -> None:
    check(database, seed=seed, rounds=8)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_all_of_sql_stays_exact_when_every_change_is_large(database: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large changes are not held by the driver, and planned by adaptive execution."""
    monkeypatch.setattr(limits, "SMALL_CHANGE", -1)
    check(database, seed=12, rounds=2)
