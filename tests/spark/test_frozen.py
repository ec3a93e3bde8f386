"""FROZEN WHERE: rows that stay as they are, whatever the sources do; the table is exact outside them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.statements import answer, done, shown

from streamtable.errors import InvalidQuery, InvalidStatement, NotSupported, RefreshError

TOTALS = "SELECT region, sum(amount) AS total, count(*) AS n FROM sales GROUP BY region"
NUMBERED = "SELECT *, row_number() OVER (PARTITION BY region ORDER BY amount, id) AS nth FROM sales"
FIRST = f"SELECT id, region, amount FROM ({NUMBERED}) WHERE nth = 1"


def contents(spark: SparkSession, relation: str) -> list[tuple[Any, ...]]:
    return sorted(answer(spark, f"SELECT * FROM {relation}"), key=str)


def outside(spark: SparkSession, query: str, condition: str) -> list[tuple[Any, ...]]:
    """Return the rows of the query that are not frozen."""
    return answer(spark, f"SELECT * FROM ({query}) WHERE NOT coalesce({condition}, false)")


def exact(spark: SparkSession, table: str) -> bool:
    return answer(spark, f"VERIFY STREAM TABLE {table}")[0][1:] == (True, 0, 0)


@pytest.mark.parametrize("condition", ["region = 'south'", "total > 30"])
def test_frozen_rows_stay_whatever_the_sources_do(shop: SparkSession, condition: str) -> None:
    shop.sql(f"CREATE STREAM TABLE st FROZEN WHERE ({condition}) AS {TOTALS}")
    frozen = answer(shop, f"SELECT * FROM st WHERE {condition}")
    assert frozen == [("south", 40, 2)]
    assert contents(shop, "st") == contents(shop, f"({TOTALS})")  # the first contents are the whole query
    if condition.startswith("total"):
        shop.sql("CREATE STREAM TABLE reader AS SELECT sum(total) AS s FROM st")  # so that FULL commits what differs
    shop.sql("DELETE FROM sales WHERE region = 'south'")
    shop.sql("INSERT INTO sales VALUES (4, 'south', 1), (5, 'north', 5), (6, 'east', 1), (7, NULL, NULL)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    expected = sorted(frozen + outside(shop, TOTALS, condition), key=str)
    assert contents(shop, "st") == expected
    assert exact(shop, "st")
    assert done(shop, "REFRESH STREAM TABLE st FULL")[0] == "FULL"
    assert contents(shop, "st") == expected
    shop.sql("UPDATE sales SET amount = 2 WHERE id = 6")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert exact(shop, "st")
    assert frozen[0] in contents(shop, "st")
    if condition.startswith("total"):
        assert done(shop, "REFRESH STREAM TABLE reader")[0] == "DIFFERENTIAL"
        assert answer(shop, "SELECT s FROM reader") == answer(shop, "SELECT sum(total) FROM st")
    assert f"FROZEN WHERE ({condition})" in shown(shop, "st")
    assert dict(answer(shop, "DESCRIBE STREAM TABLE st"))["frozen"] == f"{condition}: exact outside these rows"
    assert "exact outside the frozen rows" in answer(shop, "EXPLAIN STREAM TABLE st")[-1][2]


def test_history_that_no_source_has_any_more_is_taken_over(shop: SparkSession) -> None:
    """The frozen rows have keys of rows that go, so that whoever looks for these finds others."""
    shop.sql(f"CREATE TABLE old USING delta AS {FIRST} UNION ALL SELECT 1, 'north', 1000 UNION ALL SELECT 2, 'south', 2000")
    shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM old FROZEN WHERE (amount >= 1000) AS {FIRST}")
    shop.sql("CREATE TABLE kept USING delta AS SELECT * FROM st WHERE amount >= 1000")
    shop.sql("DELETE FROM sales WHERE id = 1")
    shop.sql("INSERT INTO sales VALUES (8, 'south', 5), (9, 'north', 3000)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert contents(shop, "st") == sorted(contents(shop, "kept") + outside(shop, FIRST, "amount >= 1000"), key=str)
    assert exact(shop, "st")
    shop.sql("INSERT INTO old VALUES (77, 'west', 7)")
    with pytest.raises(InvalidStatement, match="3 rows there are not in the query"):
        shop.sql(f"CREATE STREAM TABLE other BACKFILL FROM old FROZEN WHERE (amount >= 1000) AS {FIRST}")


def test_the_condition_is_set_and_dropped(shop: SparkSession) -> None:
    query = "SELECT id, amount FROM sales WHERE id <> 3"
    shop.sql(f"CREATE STREAM TABLE st AS {query}")
    shop.sql("ALTER STREAM TABLE st SET FROZEN WHERE (id = 1)")
    shop.sql("DELETE FROM sales WHERE id = 1")
    shop.sql("REFRESH STREAM TABLE st")
    assert contents(shop, "st") == [(1, 10), (2, 20), (2, 20)]
    shop.sql("ALTER STREAM TABLE st SET FROZEN WHERE (id <= 2)")
    shop.sql("DELETE FROM sales WHERE id = 2")
    shop.sql("ALTER STREAM TABLE st AS SELECT id, amount + 1 AS amount FROM sales")  # another query, the same columns
    assert contents(shop, "st") == [(1, 10), (2, 20), (2, 20), (3, 31)]
    assert exact(shop, "st")
    with pytest.raises(NotSupported, match="keeps frozen rows, and cannot be given other columns"):
        shop.sql("ALTER STREAM TABLE st AS SELECT id, amount, region FROM sales")
    for verb in ("CREATE OR REPLACE", "CREATE OR REFRESH", "EXPLAIN CREATE OR REPLACE"):  # the last one by deployments
        with pytest.raises(InvalidStatement, match="has frozen rows, which a definition without FROZEN WHERE would lose"):
            shop.sql(f"{verb} STREAM TABLE st AS {query}")
    with pytest.raises(NotSupported, match="cannot be laid out anew"):
        shop.sql("CREATE OR REPLACE STREAM TABLE st FROZEN WHERE (id <= 2) CLUSTER BY (id) AS SELECT id, amount FROM sales")
    shop.sql("ALTER STREAM TABLE st SET FROZEN WHERE (id = 2)")  # what is not frozen any more is the query's again
    assert contents(shop, "st") == [(2, 20), (2, 20), (3, 31)]
    shop.sql("ALTER STREAM TABLE st DROP FROZEN")
    assert contents(shop, "st") == [(3, 31)]
    assert exact(shop, "st")
    assert "FROZEN" not in shown(shop, "st")


def test_a_table_without_data_is_filled_whole(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st FROZEN WHERE (n = 2) WITH NO DATA AS {TOTALS}")
    shop.sql("REFRESH STREAM TABLE st")
    assert contents(shop, "st") == contents(shop, f"({TOTALS})")


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("id < day(current_date())", "reads the clock"),
        ("rand() < 0.5", "is not deterministic"),
        ("region = current_user()", "is not deterministic"),
        ("id IN (SELECT id FROM sales)", "has a subquery"),
        ("max(id) = 1", "is rejected by Spark"),
        ("price = 1", "is rejected by Spark"),
        ("DATE'today' = DATE'2024-01-01'", "which is another time each time"),
        ("region = current_schema()", "reads the session"),
        ("region = concat('', current_database())", "reads the session"),
        ("id = 1 OR region = current_catalog()", "reads the session"),
    ],
)
def test_a_condition_that_does_not_follow_from_the_row_is_refused(shop: SparkSession, condition: str, said: str) -> None:
    with pytest.raises(InvalidQuery, match=f"line 1, column 40: the condition of FROZEN .*{said}"):
        shop.sql(f"CREATE STREAM TABLE st FROZEN WHERE (  {condition}) AS SELECT id, region FROM sales")


@pytest.mark.parametrize(
    "condition",
    [
        "10 / id > 5",
        pytest.param("CAST(region AS INT) = 1", marks=pytest.mark.fuzz),
        pytest.param("element_at(array(1, 2), id) = 1", marks=pytest.mark.fuzz),
    ],
)
def test_a_condition_without_an_answer_for_a_row_is_named(shop: SparkSession, condition: str) -> None:
    """The first contents are the whole query: without a look the condition would fail at each refresh after CREATE."""
    told = rf"(?s)the condition of FROZEN, \({re.escape(condition)}\), has no answer for a row of .*st: .*try_divide"
    shop.sql("CREATE TABLE good USING delta AS SELECT 1 AS id, '1' AS region")
    shop.sql("CREATE TABLE bad USING delta AS SELECT * FROM good UNION ALL SELECT 0, 'x'")
    for clause, query in (
        ("", "SELECT * FROM bad"),
        ("BACKFILL FROM bad TRUSTED", "SELECT * FROM good"),
        ("BACKFILL FROM bad VERIFIED", "SELECT * FROM bad"),
    ):
        with pytest.raises(RefreshError, match=told):
            shop.sql(f"CREATE STREAM TABLE st {clause} FROZEN WHERE ({condition}) AS {query}")
        assert not shop.catalog.tableExists("st")
    shop.sql("CREATE STREAM TABLE st AS SELECT * FROM bad")
    with pytest.raises(RefreshError, match=told):
        shop.sql(f"ALTER STREAM TABLE st SET FROZEN WHERE ({condition})")
    with pytest.raises(RefreshError, match=told):  # the row is in the table, and would be frozen or not
        shop.sql(f"CREATE OR REPLACE STREAM TABLE st FROZEN WHERE ({condition}) AS SELECT * FROM good")
    shop.sql("DROP STREAM TABLE st")
    shop.sql(f"CREATE STREAM TABLE st FROZEN WHERE ({condition}) AS SELECT * FROM good")
    shop.sql("INSERT INTO good VALUES (0, 'x')")
    for full in ("", " FULL"):
        with pytest.raises(RefreshError, match=told):
            shop.sql(f"REFRESH STREAM TABLE st{full}")
        assert contents(shop, "st") == [(1, "1")]
    shop.sql("ALTER STREAM TABLE st SET FROZEN WHERE (try_divide(10, id) > 5)")
    shop.sql("REFRESH STREAM TABLE st")
    assert contents(shop, "st") == [(0, "x"), (1, "1")]
    assert exact(shop, "st")


def test_a_deleted_row_without_an_answer_fails_no_refresh(shop: SparkSession) -> None:
    """The file of the frozen row stays, and holds the deleted row too."""
    shop.sql("CREATE TABLE src USING delta AS SELECT /*+ COALESCE(1) */ * FROM VALUES (0, 'x'), (1, 'a'), (2, 'b') AS t(id, s)")
    shop.sql("CREATE STREAM TABLE st AS SELECT * FROM src")
    shop.sql("DELETE FROM src WHERE id = 0")
    shop.sql("REFRESH STREAM TABLE st")
    shop.sql("ALTER STREAM TABLE st SET FROZEN WHERE (10 / id > 5)")
    shop.sql("UPDATE src SET s = 'c'")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert contents(shop, "st") == [(1, "a"), (2, "c")]
    shop.sql("CREATE STREAM TABLE reader AS SELECT count(*) AS n FROM st")  # so that FULL commits what differs
    shop.sql("UPDATE src SET s = 'd'")
    assert done(shop, "REFRESH STREAM TABLE st FULL")[0] == "FULL"
    assert contents(shop, "st") == [(1, "a"), (2, "d")]
    assert done(shop, "REFRESH STREAM TABLE reader")[0] == "DIFFERENTIAL"
    assert exact(shop, "st")


def test_an_error_of_the_query_is_not_one_of_the_condition(shop: SparkSession) -> None:
    shop.sql("INSERT INTO sales VALUES (0, 'x', 1)")
    for clause in ("FROZEN WHERE (id = 1)", "FROZEN WHERE (10 / id > 5)"):
        with pytest.raises(RefreshError, match="Spark could not compute the refresh of .*st: .*zero"):
            shop.sql(f"CREATE STREAM TABLE st {clause} AS SELECT id, amount / id AS share FROM sales")


@pytest.mark.parametrize("condition", ["coalesce(*) IS NULL", "hash(*) > 0", "to_json(struct(*)) LIKE '%1%'", "r.k = 1"])
def test_a_condition_that_reads_more_than_the_table_has_loses_no_frozen_rows(shop: SparkSession, condition: str) -> None:
    """Rows that are read from the table have their place beside their columns, and no column that only a source has."""
    shop.sql("CREATE TABLE keys (k INT) USING delta")
    with pytest.raises(InvalidQuery, match="the condition of FROZEN (reads more than columns|is rejected by Spark)"):
        shop.sql(
            f"CREATE STREAM TABLE st FROZEN WHERE ({condition}) "
            "AS SELECT * FROM (SELECT id AS k, region FROM sales) l FULL JOIN keys r USING (k)"
        )
    assert not shop.catalog.tableExists("st")


def test_frozen_rows_with_a_char_column_stay(shop: SparkSession) -> None:
    """Spark pads a literal that is compared with a CHAR column; in the table the column is a STRING."""
    shop.sql("CREATE TABLE codes (id INT, code CHAR(4) COMMENT 'short') USING delta")
    shop.sql("INSERT INTO codes VALUES (1, 'ab'), (2, 'cd'), (3, 'abcd')")
    shop.sql("CREATE STREAM TABLE st FROZEN WHERE (code IN ('ab', 'abcd') OR trim(code) = 'cd') AS SELECT * FROM codes")
    before = contents(shop, "st")
    shop.sql("UPDATE codes SET id = id + 10")
    for statement in ("REFRESH STREAM TABLE st", "REFRESH STREAM TABLE st FULL"):
        shop.sql(statement)
        assert contents(shop, "st") == [(11, "ab  "), *(row for row in before if row[0] != 1)]
        assert exact(shop, "st")
    assert ("code", "string", "short") in answer(shop, "DESCRIBE st")


def test_expectations_and_frozen_rows_exclude_each_other(shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE st (CONSTRAINT c EXPECT (id > 0)) AS SELECT id FROM sales")
    with pytest.raises(InvalidStatement, match="a table with expectations cannot have frozen rows"):
        shop.sql("ALTER STREAM TABLE st SET FROZEN WHERE (id = 1)")


def test_a_row_that_is_not_there_takes_no_frozen_row_along(shop: SparkSession) -> None:
    """Rows that go are looked for by one column, whose value a frozen row has too."""
    shop.sql("CREATE TABLE old USING delta AS SELECT 1 AS id, 'north' AS region, 1000 AS amount")
    shop.sql(
        "CREATE STREAM TABLE st BACKFILL FROM old TRUSTED FROZEN WHERE (amount >= 1000) AS SELECT id, region, amount FROM sales"
    )
    shop.sql("DELETE FROM sales WHERE id = 1")
    assert done(shop, "REFRESH STREAM TABLE st") == ("REINITIALIZE", "a row that was to be deleted is not in the table")
    assert contents(shop, "st") == [(1, "north", 1000), (2, "south", 20), (2, "south", 20), (3, None, 30)]


def test_the_table_holds_the_states_again_when_nothing_is_frozen(shop: SparkSession) -> None:
    shop.sql(f"CREATE STREAM TABLE st AS {TOTALS}")
    shop.sql("ALTER STREAM TABLE st SET FROZEN WHERE (region = 'south')")
    for statement in ("SET FROZEN WHERE (region = 'north')", "DROP FROZEN"):
        shop.sql("INSERT INTO sales VALUES (4, 'south', 1), (5, 'north', 2)")
        assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
        assert exact(shop, "st")
        shop.sql(f"ALTER STREAM TABLE st {statement}")
        assert exact(shop, "st")
    shop.sql("DELETE FROM sales WHERE id IN (1, 4)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert contents(shop, "st") == contents(shop, f"({TOTALS})")


def test_frozen_rows_stay_while_files_and_columns_move(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE places (id INT, name STRING, x INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    shop.sql("INSERT INTO places VALUES (1, 'a', 1), (2, 'b', 2), (2, 'b', 2), (3, NULL, 3)")
    shop.sql("CREATE STREAM TABLE st (nr, `a name`) FROZEN WHERE (`a name` = 'b') AS SELECT id, name FROM places")
    shop.sql("ALTER TABLE places RENAME COLUMN x TO y")
    shop.sql("DELETE FROM places WHERE id < 3")
    shop.sql("INSERT INTO places VALUES (4, 'b', 4), (5, NULL, 5)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    shop.sql("OPTIMIZE st")
    shop.sql("DELETE FROM places WHERE id = 3")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert contents(shop, "st") == [(2, "b"), (2, "b"), (5, None)]
    assert exact(shop, "st")


@pytest.mark.parametrize("condition", ["CAST(ts AS DATE) < DATE'2024-01-01'", "name COLLATE UTF8_LCASE = 'A'"])
def test_the_condition_means_what_it_meant_at_create(shop: SparkSession, condition: str) -> None:
    shop.sql("CREATE TABLE events USING delta AS SELECT 'a' AS name, TIMESTAMP'2024-01-01 04:00:00Z' AS ts")
    zone = shop.conf.get("spark.sql.session.timeZone")
    try:
        shop.conf.set("spark.sql.session.timeZone", "America/New_York")  # where it is still 2023
        shop.sql(f"CREATE STREAM TABLE st FROZEN WHERE ({condition}) AS SELECT * FROM events")
        shop.conf.set("spark.sql.session.timeZone", "UTC")
        shop.sql("DELETE FROM events")
        shop.sql("INSERT INTO events VALUES ('A', TIMESTAMP'2024-01-01 03:00:00Z'), ('b', TIMESTAMP'2024-01-01 06:00:00Z')")
        for statement in ("REFRESH STREAM TABLE st", "REFRESH STREAM TABLE st FULL"):
            shop.sql(statement)
            assert [name for name, _ in contents(shop, "st")] == ["a", "b"]
            assert exact(shop, "st")
    finally:
        shop.conf.set("spark.sql.session.timeZone", str(zone))


def test_another_query_from_another_time_zone_freezes_the_same_rows(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE events USING delta AS SELECT 'a' AS name, TIMESTAMP'2024-01-01 04:00:00Z' AS ts")
    frozen, zone = "FROZEN WHERE (CAST(ts AS DATE) < DATE'2024-01-01')", shop.conf.get("spark.sql.session.timeZone")
    checked = "(CONSTRAINT c EXPECT (CAST(ts AS DATE) < DATE'2024-01-01'))"
    try:
        shop.conf.set("spark.sql.session.timeZone", "America/New_York")  # where it is still 2023
        shop.sql(f"CREATE STREAM TABLE st {frozen} AS SELECT * FROM events")
        shop.sql(f"CREATE STREAM TABLE checked {checked} AS SELECT * FROM events")
        shop.conf.set("spark.sql.session.timeZone", "UTC")
        shop.sql("ALTER STREAM TABLE checked AS SELECT upper(name) AS name, ts FROM events")
        assert answer(shop, "SELECT passed, failed FROM expectations('checked')") == [(1, 0)]
        shop.sql("DELETE FROM events")
        for statement in (
            "ALTER STREAM TABLE st AS SELECT upper(name) AS name, ts FROM events",
            f"CREATE OR REPLACE STREAM TABLE st {frozen} AS SELECT lower(name) AS name, ts FROM events",
            "REFRESH STREAM TABLE st FULL",
        ):
            shop.sql(statement)
            assert [name for name, _ in contents(shop, "st")] == ["a"]
    finally:
        shop.conf.set("spark.sql.session.timeZone", str(zone))


def test_a_table_is_made_anew_from_a_copy_of_its_frozen_rows(shop: SparkSession) -> None:
    shop.sql("CREATE TABLE copy USING delta AS SELECT 'south' AS region, 999L AS total, 9L AS n")
    shop.sql(f"CREATE STREAM TABLE st BACKFILL FROM copy TRUSTED FROZEN WHERE (region = 'south') AS {TOTALS}")
    assert contents(shop, "st") == [("south", 999, 9)]
    shop.sql("REFRESH STREAM TABLE st FULL")
    assert contents(shop, "st") == sorted([("south", 999, 9), *outside(shop, TOTALS, "region = 'south'")], key=str)
    shop.sql("INSERT INTO sales VALUES (4, 'south', 1), (5, 'north', 2)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert exact(shop, "st")
