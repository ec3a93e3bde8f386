"""BACKFILL FROM: the first contents are those of another table, which are compared with the query or trusted."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.spark.statements import answer, done, shown
from tests.versions import is_since

from streamtable.catalog.entries import load
from streamtable.errors import InvalidStatement
from streamtable.language.names import Name
from streamtable.refresh.frontier import Frontier

TOTALS = "SELECT region, sum(amount) AS total, count(*) AS n FROM sales GROUP BY region"


def test_rows_of_another_table_that_are_those_of_the_query_are_the_first_contents(shop: SparkSession) -> None:
    shop.sql(f"CREATE TABLE old USING delta AS SELECT n, total, region FROM ({TOTALS})")
    explained = answer(shop, f"EXPLAIN CREATE STREAM TABLE st BACKFILL FROM old AS {TOTALS}")
    assert explained[-1][:2] == ("Backfill", True)
    shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM old AS {TOTALS}")
    assert answer(shop, "SELECT reason FROM refresh_history('st')") == [
        ("the rows of spark_catalog.shop.old at version 0, equal to those of the query",)
    ]
    assert "BACKFILL" not in shown(shop, "st")
    shop.sql("DROP TABLE old")
    shop.sql("INSERT INTO sales VALUES (9, 'north', 1)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", True, 0, 0)]
    shop.sql(f"CREATE OR REPLACE STREAM TABLE st BACKFILL FROM old AS {TOTALS}")  # it exists, and keeps to its query


def test_rows_that_are_not_those_of_the_query_are_refused_unless_they_are_trusted(shop: SparkSession) -> None:
    query = "SELECT id, amount FROM sales"
    shop.sql("CREATE TABLE old USING delta AS SELECT id, amount FROM sales UNION ALL SELECT 77, 7")
    with pytest.raises(InvalidStatement, match="0 rows of the query are not there, 1 rows there are not in the query"):
        shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM old AS {query}")
    assert not shop.catalog.tableExists("st")
    shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM old TRUSTED AS {query}")
    shop.sql("INSERT INTO sales VALUES (9, 'north', 1)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert answer(shop, "SELECT id FROM st WHERE id IN (9, 77) ORDER BY id") == [(9,), (77,)]
    assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", False, 0, 1)]
    shop.sql("REFRESH STREAM TABLE st FULL")
    assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", True, 0, 0)]


def test_trusted_rows_are_no_states_so_a_group_or_a_first_row_that_they_lack_does_not_begin_anew(shop: SparkSession) -> None:
    """Until a full refresh: a group that the given table lacks would hold the new rows alone, and nobody would notice."""
    first = "SELECT id, amount, region FROM sales QUALIFY row_number() OVER (PARTITION BY region ORDER BY id) = 1"
    if not is_since("4.2"):
        numbered = "SELECT *, row_number() OVER (PARTITION BY region ORDER BY id) AS n FROM sales"
        first = f"SELECT id, amount, region FROM ({numbered}) WHERE n = 1"
    for query in (TOTALS, TOTALS.replace("sum(amount)", "sum(nullif(amount, 3))"), first):
        shop.sql(f"CREATE OR REPLACE TABLE old USING delta AS SELECT * FROM ({query}) WHERE region IS DISTINCT FROM 'north'")
        shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM old TRUSTED AS {query}")
        shop.sql("INSERT INTO sales VALUES (10, 'south', 1)")
        assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
        assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", False, 1, 0)], query
        shop.sql("INSERT INTO sales VALUES (9, 'north', 1)")
        shop.sql("REFRESH STREAM TABLE st")
        assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", True, 0, 0)], query
        shop.sql("INSERT INTO sales VALUES (11, 'north', 1)")
        shop.sql("REFRESH STREAM TABLE st FULL")
        shop.sql("INSERT INTO sales VALUES (12, 'north', 1)")
        assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
        assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", True, 0, 0)], query
        shop.sql("DROP STREAM TABLE st")


def test_other_columns_are_refused_before_anything_is_there(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE old (ID INT, amount BIGINT, more STRING) USING delta")
    query = "SELECT id, amount, region FROM sales"
    for name, said in {
        "old": "it has no column region; the query has no column more; amount is bigint there and int in the query",
        "nothing": "there is no such table",
        "st": "there is no such table",
    }.items():
        for verb in ("EXPLAIN CREATE", "CREATE"):
            with pytest.raises(InvalidStatement, match=said):
                shop.sql(f"{verb} STREAM TABLE st BACKFILL FROM {name} AS {query}")
    shop.sql("CREATE VIEW seen AS SELECT * FROM sales")
    with pytest.raises(InvalidStatement, match="it is no Delta table"):
        shop.sql("CREATE STREAM TABLE st BACKFILL FROM seen AS SELECT * FROM sales")
    assert not shop.catalog.tableExists("st")


def test_a_temporary_view_that_hides_the_table_of_its_name_is_not_passed_over(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE old USING delta AS SELECT id FROM sales")
    shop.sql("SELECT 77 AS id").createOrReplaceTempView("OLD")
    try:
        for statement in (
            "CREATE STREAM TABLE st BACKFILL FROM old TRUSTED AS SELECT id FROM sales",
            "EXPLAIN CREATE STREAM TABLE st BACKFILL FROM old AS SELECT id FROM sales",
            "SUBSCRIBE old",
            "CREATE QUEUE q ON old",
            "CREATE PUBLICATION p FOR TABLE old",
        ):
            with pytest.raises(InvalidStatement, match=r"(?s)reads the temporary view old.*write its schema too"):
                shop.sql(statement)
        shop.sql("CREATE STREAM TABLE st BACKFILL FROM shop.old AS SELECT id FROM sales")
        assert answer(shop, "SELECT count(*) FROM st") == [(4,)]
    finally:
        shop.catalog.dropTempView("old")


def test_rows_are_compared_as_a_bag_whatever_the_order_of_columns_and_whether_they_may_be_null(shop: SparkSession) -> None:
    query = "SELECT id, region, amount FROM sales"
    shop.sql("CREATE TABLE old (AMOUNT INT NOT NULL, Region STRING, id INT) USING delta")
    shop.sql("INSERT INTO old SELECT DISTINCT amount, region, id FROM sales")
    with pytest.raises(InvalidStatement, match="1 rows of the query are not there, 0 rows there are not in the query"):
        shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM old AS {query}")
    shop.sql("INSERT INTO old SELECT amount, region, id FROM sales WHERE id = 2 LIMIT 1")
    shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM old AS {query}")
    assert shop.table("st").columns == ["id", "region", "amount"]
    shop.sql("INSERT INTO sales VALUES (4, NULL, NULL)")
    shop.sql("DELETE FROM sales WHERE id = 2")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert answer(shop, "SELECT * FROM st ORDER BY id") == [(1, "north", 10), (3, None, 30), (4, None, None)]


def test_doubles_that_differ_in_the_last_digit_are_other_rows(shop: SparkSession) -> None:
    """A refresh would look in vain for the row that the query gives."""
    shop.sql(
        "CREATE TABLE xs USING delta AS SELECT id, CAST(id AS DOUBLE) + 0.1D AS d, CAST(id AS FLOAT) AS f, -0.0D AS z FROM range(3)"
    )
    for name, changed in {
        "digit": "SELECT id, d + if(id = 1, 4e-16D, 0D) AS d, f, z",
        "float": "SELECT id, d, CAST(f + if(id = 1, 2e-7D, 0D) AS FLOAT) AS f, z",
        "zero": "SELECT id, d, f, 0.0D AS z",
    }.items():
        shop.sql(f"CREATE TABLE {name} USING delta AS {changed} FROM xs")
        with pytest.raises(InvalidStatement, match=f"{3 if name == 'zero' else 1} rows of the query are not there"):
            shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM {name} AS SELECT * FROM xs")
    shop.sql("CREATE TABLE same USING delta AS SELECT * FROM xs")
    shop.sql("CREATE STREAM TABLE st BACKFILL FROM same VERIFIED AS SELECT * FROM xs")
    shop.sql("DELETE FROM xs WHERE id = 1")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"


def test_the_counts_of_expectations_are_those_of_the_query(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE old USING delta AS SELECT id, amount FROM sales WHERE amount > 15")
    valid = "CONSTRAINT valid EXPECT (amount > 15) ON VIOLATION DROP ROW"
    shop.sql(f"CREATE STREAM TABLE st ({valid}) BACKFILL FROM old AS SELECT id, amount FROM sales")
    assert answer(shop, "SELECT passed, failed FROM expectations('st')") == [(3, 1)]
    assert answer(shop, "VERIFY STREAM TABLE st") == [("spark_catalog.shop.st", True, 0, 0)]


def test_a_copy_is_not_taken_for_the_cost_of_the_query(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE old USING delta AS SELECT id, amount FROM sales")
    shop.sql("CREATE STREAM TABLE st BACKFILL FROM old TRUSTED AS SELECT id, amount FROM sales")
    frontier = Frontier.of(load(shop, Name(("st",))).state.frontier)
    assert frontier is not None
    assert frontier.runs == ()
    shop.sql("REFRESH STREAM TABLE st FULL")
    frontier = Frontier.of(load(shop, Name(("st",))).state.frontier)
    assert frontier is not None
    assert [ran.differential for ran in frontier.runs] == [False]
