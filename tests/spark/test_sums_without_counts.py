"""SELECT k, count(*), sum(x) with x that may be NULL: the table itself holds the states, and a sum whose values went is NULL again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, done, folder

QUERY = """SELECT k, count(*) AS n, sum(x) AS total, sum(d) AS decimals, sum(x) FILTER (WHERE x > 1) AS above, max(x) AS most
    FROM t GROUP BY k"""
ROWS = "(1, 5, 1.5), (1, -5, NULL), (1, NULL, NULL), (2, 0, 0.0), (2, 0, 0.0), (2, NULL, NULL), (3, NULL, 7), (4, 9, -9)"
CHANGES = {
    "all values of a group go, and a row without one stays": "DELETE FROM t WHERE k = 1 AND x IS NOT NULL",
    "one of two zeros goes": "DELETE FROM t WHERE k = 2 AND x = 0 AND id = 4",
    "both zeros go": "DELETE FROM t WHERE k = 2 AND x = 0",
    "the first value comes": "UPDATE t SET x = 3, d = 3 WHERE k = 3",
    "the only value becomes NULL": "UPDATE t SET x = NULL, d = NULL WHERE k = 4",
    "a value goes and its opposite comes": "UPDATE t SET x = -x WHERE k = 1",
    "a value is replaced by a zero": "UPDATE t SET x = 0, d = 0 WHERE k = 4",
    "a group goes whole": "DELETE FROM t WHERE k IN (2, 4)",
    "rows come": "INSERT INTO t VALUES (9, 1, NULL, NULL), (10, 5, NULL, NULL), (11, 4, -9, 9)",
}


@pytest.fixture
def sums(shop: SparkSession) -> SparkSession:
    """Return a session with a source of few rows, and a stream table of their sums."""
    shop.sql("CREATE TABLE t (id BIGINT, k INT, x INT, d DECIMAL(9,1)) USING delta")
    shop.sql(f"INSERT INTO t SELECT row_number() OVER (ORDER BY k, x DESC), * FROM VALUES {ROWS} AS v (k, x, d)")
    shop.sql(f"CREATE STREAM TABLE sums REFRESH MODE DIFFERENTIAL AS {QUERY}")
    return shop


def test_a_sum_of_nullable_values_beside_a_count_of_rows_needs_no_arrangement(sums: SparkSession) -> None:
    assert not (folder(sums, "sums") / "_streamtable").exists()
    sums.sql("CREATE STREAM TABLE means AS SELECT k, count(*) AS n, avg(x) AS mean FROM t GROUP BY k")
    assert (folder(sums, "means") / "_streamtable").is_dir()  # of an average the table holds no state


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_sum_whose_values_went_is_null_and_not_0(sums: SparkSession, change: str) -> None:
    sums.sql(change)
    assert done(sums, "REFRESH STREAM TABLE sums")[0] == "DIFFERENTIAL"
    assert_exact(sums, "sums", QUERY)


def test_sums_over_many_changes_stay_exact(sums: SparkSession) -> None:
    for turn in range(4):
        for change in CHANGES.values():
            sums.sql(change)
        sums.sql(f"INSERT INTO t SELECT id + {turn}, k, 1 - {turn} % 3, d FROM t")
        assert done(sums, "REFRESH STREAM TABLE sums")[0] == "DIFFERENTIAL"
        assert_exact(sums, "sums", QUERY)
    assert answer(sums, "VERIFY STREAM TABLE sums")[0][1]


def test_a_sum_that_wrapped_around_is_null_when_its_values_went(shop: SparkSession) -> None:
    """Without ANSI the sum of twice 2^63 - 1 is -2. When both went it was 0."""
    query = "SELECT k, count(*) AS n, sum(x) AS total FROM t GROUP BY k"
    with ansi_off(shop):
        shop.sql("CREATE TABLE t (k INT, x BIGINT) USING delta")
        shop.sql(
            f"INSERT INTO t VALUES (1, {2**63 - 1}), (1, {2**63 - 1}), (1, NULL), (2, {2**62}), (2, {2**62}), (2, {2**62}), (2, {2**62}), (2, 7)"
        )
        shop.sql(f"CREATE STREAM TABLE wrapped REFRESH MODE DIFFERENTIAL AS {query}")
        shop.sql("DELETE FROM t WHERE (k = 1 AND x IS NOT NULL) OR x = 7")
        assert done(shop, "REFRESH STREAM TABLE wrapped")[0] == "DIFFERENTIAL"
        assert_exact(shop, "wrapped", query)


@contextmanager
def ansi_off(spark: SparkSession) -> Iterator[None]:
    """Let arithmetic wrap around."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
