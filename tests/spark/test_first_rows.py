"""The first rows of each partition, as by row_number() = 1: the table holds them, and rows that come are compared with these."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import done
from tests.spark.work import Work

RANKED = "SELECT * EXCEPT (nth) FROM (SELECT *, {} AS nth FROM clicks) WHERE {}"
QUERIES = {
    "latest": RANKED.format("row_number() OVER (PARTITION BY k ORDER BY at DESC, id DESC)", "nth = 1"),
    "ties left open": RANKED.format("row_number() OVER (PARTITION BY k ORDER BY at)", "1 = nth"),
    "first two": RANKED.format("row_number() OVER (PARTITION BY k, kind ORDER BY at, id)", "nth <= 2"),
    "less than three": RANKED.format("rank() OVER (PARTITION BY k ORDER BY at DESC)", "3 > nth"),
    "with the number": "SELECT * FROM (SELECT *, dense_rank() OVER (PARTITION BY k ORDER BY at) AS nth FROM clicks) WHERE nth < 3",
}
ROWS = 4000


@pytest.fixture
def clicks(shop: SparkSession) -> SparkSession:
    """Return a session with a table of clicks, 100 of each key."""
    shop.sql(
        "CREATE TABLE clicks (id BIGINT, k INT, at INT, kind STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
    )
    values = "id, CAST(id % 40 AS INT), CAST(pmod(hash(id), 50) AS INT), CAST(id % 3 AS STRING)"
    shop.sql(f"INSERT INTO clicks SELECT /*+ COALESCE(1) */ {values} FROM range({ROWS})")
    return shop


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_rows_that_come_are_compared_with_the_first_rows_that_the_table_holds(clicks: SparkSession, query: str) -> None:
    clicks.sql(f"CREATE STREAM TABLE firsts REFRESH MODE DIFFERENTIAL AS {query}")
    clicks.sql(
        "INSERT INTO clicks VALUES (9001, 1, -1, '0'), (9002, 1, 60, '1'), (9003, 2, 25, NULL), (9004, 77, 1, '2'), (9005, NULL, 1, '2')"
    )
    before = Work.so_far(clicks)
    assert done(clicks, "REFRESH STREAM TABLE firsts")[0] == "DIFFERENTIAL"
    _, read = before.since(clicks)
    assert read < ROWS / 2
    assert_exact(clicks, "firsts", query)


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_a_partition_that_loses_a_first_row_is_read_again(clicks: SparkSession, query: str) -> None:
    clicks.sql(f"CREATE STREAM TABLE firsts REFRESH MODE DIFFERENTIAL AS {query}")
    for change in (
        "DELETE FROM clicks WHERE k = 3 AND at > 40",
        "DELETE FROM clicks WHERE k = 4 AND at < 10",
        "UPDATE clicks SET at = 25 WHERE k = 5 AND (at > 45 OR at < 3)",
        "UPDATE clicks SET kind = 'x' WHERE k IN (6, 7)",
        "DELETE FROM clicks WHERE k = 8",
        "INSERT INTO clicks SELECT * FROM clicks WHERE k IN (9, 10)",
        "DELETE FROM clicks WHERE k = 9 AND at % 2 = 0",
    ):
        clicks.sql(change)
        assert done(clicks, "REFRESH STREAM TABLE firsts")[0] == "DIFFERENTIAL"
        assert_exact(clicks, "firsts", query)
