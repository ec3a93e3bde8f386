"""EXPLAIN and VERIFY end to end: what could be kept incrementally, and whether what was kept is right."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import bag
from tests.pipeline import in_turn
from tests.spark.statements import answer, done, version

from streamtable.errors import InvalidQuery, InvalidStatement

ST = "spark_catalog.shop.st"
ALL = "SELECT * FROM sales"
BY_REGION = "SELECT region, max(amount) AS most, count(*) AS n FROM sales GROUP BY region"
READ = "the changed rows of the table: from its change data feed where that is on, else from the files that came and went"
SCANNED = ("Scan spark_catalog.shop.sales", True, f"Delta of a source table; reads {READ}")
LINEAR = "reads the changed rows of its input"


def test_explain_create_names_each_operator_and_creates_nothing(shop: SparkSession) -> None:
    query = "SELECT id, region, amount + 1 AS more FROM sales WHERE id > 1"
    explained = answer(shop, f"-- what if\nEXPLAIN CREATE STREAM TABLE st AS {query};")
    verdict, *operators = explained
    assert verdict == ("Verdict", True, "Each refresh is DIFFERENTIAL, as long as that costs less than a full one")
    assert operators == [
        ("Project", True, f"Delta of a projection; {LINEAR}"),
        ("Filter ((id > 1))", True, f"Delta of a filter; {LINEAR}"),
        SCANNED,
    ]
    assert not shop.catalog.tableExists("st")
    shop.sql(f"CREATE STREAM TABLE st AS {query}")
    assert answer(shop, "EXPLAIN STREAM TABLE shop.`st`")[1:] == operators


def test_explain_says_first_what_the_next_refresh_does_and_refresh_does_it(shop: SparkSession) -> None:
    def verdict() -> tuple[bool, str]:
        (title, cheap, reason), *_ = answer(shop, "EXPLAIN STREAM TABLE st")
        assert title == "Verdict"
        return cheap, reason

    shop.sql(f"CREATE STREAM TABLE st WITH NO DATA AS {ALL}")
    assert verdict() == (False, "The next refresh is REINITIALIZE: the table was not populated yet")
    for change, cheap in (
        ("SELECT 1", True),
        ("INSERT INTO sales VALUES (8, 'west', 1)", True),
        ("ALTER STREAM TABLE st SET REFRESH MODE FULL", True),
    ):
        shop.sql("REFRESH STREAM TABLE st")
        shop.sql(change)
        said = verdict()
        assert said == (cheap, "The next refresh is {}: {}".format(*done(shop, "REFRESH STREAM TABLE st")))


def test_explain_says_what_stands_in_the_way(shop: SparkSession) -> None:
    explained = answer(shop, "EXPLAIN CREATE OR REPLACE STREAM TABLE st AS SELECT id, rand() AS r FROM sales")
    volatile = "volatile expression rand(): a retraction would not compute what the insertion computed"
    assert explained == [
        ("Verdict", False, f"Each refresh is FULL: Project: {volatile}"),
        ("Project", False, volatile),
        SCANNED,
    ]
    assert not shop.catalog.tableExists("st")


def test_explain_delta_shows_the_sql_of_a_refresh(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    *operators, (title, incremental, sql) = answer(shop, "EXPLAIN DELTA STREAM TABLE st")
    assert operators == answer(shop, "EXPLAIN STREAM TABLE st")
    assert (title, incremental) == ("Delta SQL", True)
    assert "FROM `spark_catalog.shop.sales (delta)`" in sql


def test_explain_refuses_what_create_refuses(shop: SparkSession) -> None:
    with pytest.raises(InvalidQuery, match="no_such_column"):
        shop.sql("EXPLAIN CREATE STREAM TABLE st AS SELECT no_such_column FROM sales")


@pytest.mark.parametrize("query", [ALL, BY_REGION])
def test_verify_holds_the_table_to_the_versions_that_it_stands_for(shop: SparkSession, query: str) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {query}")
    assert answer(shop, "VERIFY STREAM TABLE st") == [(ST, True, 0, 0)]
    shop.sql("DELETE FROM sales WHERE id < 3")
    assert answer(shop, "VERIFY STREAM TABLE st") == [(ST, True, 0, 0)]
    shop.sql("REFRESH STREAM TABLE st")
    assert answer(shop, "VERIFY STREAM TABLE st") == [(ST, True, 0, 0)]


def test_verify_of_a_table_whose_view_reads_another_table_asks_for_a_refresh(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE other USING delta AS SELECT * FROM sales")
    shop.sql("CREATE VIEW v AS SELECT * FROM sales")
    shop.sql("CREATE STREAM TABLE st AS SELECT * FROM v")
    shop.sql(f"CREATE STREAM TABLE fine AS {ALL}")
    shop.sql("CREATE OR REPLACE VIEW v AS SELECT * FROM other")
    with pytest.raises(InvalidStatement, match="the query of .*st reads .*other now, and its last") as told:
        shop.sql("VERIFY STREAM TABLE st")
    assert "REFRESH STREAM TABLE `spark_catalog`.`shop`.`st`" in str(told.value)
    others = [("spark_catalog.shop.fine", True, 0, 0), (ST, False, None, None)]
    assert sorted(answer(shop, "VERIFY STREAM TABLES")) == others
    shop.sql("DROP VIEW v")  # nor does a table end it whose query cannot be read
    assert sorted(answer(shop, "VERIFY STREAM TABLES")) == others
    shop.sql("CREATE VIEW v AS SELECT * FROM other")
    shop.sql("REFRESH STREAM TABLE st")
    assert answer(shop, "VERIFY STREAM TABLE st") == [(ST, True, 0, 0)]


DAMAGES = {
    "one of two equal rows is missing, and another": ("DELETE FROM st WHERE id = 1", 1, 0),
    "both of two equal rows are missing": ("DELETE FROM st WHERE id = 2", 2, 0),
    "a third of two equal rows, and a new one": ("INSERT INTO st VALUES (2, 'south', 20), (7, NULL, NULL)", 0, 2),
    "a changed row counts on both sides": ("UPDATE st SET amount = NULL WHERE id = 3", 1, 1),
    "NULL is not an empty text": ("UPDATE st SET region = '' WHERE region IS NULL", 1, 1),
    "everything is gone": ("TRUNCATE TABLE st", 4, 0),
}


SOME = ("one of two equal rows is missing, and another", "a third of two equal rows, and a new one", "NULL is not an empty text")
"""Rows that went, that came and that changed; `./run fuzz -k foreign_write` has all."""


@pytest.mark.parametrize("name", in_turn(DAMAGES, SOME))
def test_verify_counts_what_a_foreign_write_did_and_changes_nothing(shop: SparkSession, name: str) -> None:
    damage, missing, surplus = DAMAGES[name]
    shop.sql(f"CREATE STREAM TABLE st AS {ALL}")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "NO_DATA"  # after which it is remembered who wrote what so far
    as_engine(shop, damage)
    damaged = bag(shop, "SELECT * FROM st")
    assert answer(shop, "VERIFY STREAM TABLE st") == [(ST, False, missing, surplus)]
    assert (version(shop, "st"), bag(shop, "SELECT * FROM st")) == (2, damaged)
    action, reason = done(shop, "REFRESH STREAM TABLE st")
    assert (action, reason.split(" of the table")[0]) == ("REINITIALIZE", "version 2")
    assert answer(shop, "VERIFY STREAM TABLE st") == [(ST, True, 0, 0)]


def as_engine(spark: SparkSession, sql: str) -> None:
    """Write past the check of direct writes, as another program would that does not know the stream table."""
    spark.sparkContext.setLocalProperty("streamtable.engine", "true")
    try:
        spark.sql(sql)
    finally:
        spark.sparkContext.setLocalProperty("streamtable.engine", None)  # type: ignore[arg-type]
