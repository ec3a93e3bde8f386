"""Bad input gets a clear error of the right class, and leaves no table, no folder and no catalog entry."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamtable.errors import (
    DependencyCycle,
    DirectWriteRefused,
    InvalidQuery,
    InvalidStatement,
    NotIncremental,
    SourceUnavailable,
    StreamTableError,
    StreamTableExists,
    StreamTableNotFound,
)

DATABASE = "bad_input"


@pytest.fixture(scope="module")
def database(spark: SparkSession) -> Iterator[SparkSession]:
    """Give the tests of this module a database with one source, `orders`."""
    spark.sql(f"CREATE DATABASE {DATABASE}")
    spark.sql(f"USE {DATABASE}")
    spark.sql("CREATE TABLE orders (id INT, customer STRING, amount INT) USING delta")
    spark.sql("CREATE TABLE customer_orders (id INT) USING delta")
    spark.sql("INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 0)")
    yield spark
    spark.sql("USE default")
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


def folders(spark: SparkSession) -> set[str]:
    """Return the folders and hidden folders in the database's own folder."""
    place = spark.sql(f"DESCRIBE DATABASE {DATABASE}").where("info_name = 'Location'").collect()[0]["info_value"]
    return {each.name for each in Path(place.removeprefix("file:")).iterdir()}


def tables(spark: SparkSession) -> set[str]:
    return {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {DATABASE}").collect() if row["namespace"] == DATABASE}


def refused(spark: SparkSession, statement: str, error: type[StreamTableError], *texts: str) -> str:
    """Run `statement`; it must fail with exactly `error`, whose text has each of `texts`, and leave everything as it was."""
    before = folders(spark), tables(spark)
    with pytest.raises(StreamTableError) as raised:
        spark.sql(statement).collect()
    message = str(raised.value)
    assert type(raised.value) is error, message
    for text in texts:
        assert text.casefold() in message.casefold(), message
    assert (folders(spark), tables(spark)) == before
    return message


def test_unknown_table_names_the_near_ones(database: SparkSession) -> None:
    refused(database, "CREATE STREAM TABLE st AS SELECT * FROM custmer_orders", InvalidQuery, "did you mean", "customer_orders")


def test_unknown_column_names_the_near_ones(database: SparkSession) -> None:
    refused(database, "CREATE STREAM TABLE st AS SELECT custmer FROM orders", InvalidQuery, "custmer", "customer")


def test_unknown_stream_table_names_the_near_ones(database: SparkSession) -> None:
    database.sql("CREATE STREAM TABLE near_one AS SELECT * FROM orders")
    try:
        refused(database, "REFRESH STREAM TABLE near_oen", StreamTableNotFound, "near_oen", "near_one")
        refused(database, "VERIFY STREAM TABLE nearone", StreamTableNotFound, "near_one")
        refused(database, "DROP STREAM TABLE nearone", StreamTableNotFound, "near_one")
    finally:
        database.sql("DROP STREAM TABLE near_one")


def test_a_plain_table_is_no_stream_table(database: SparkSession) -> None:
    refused(database, "REFRESH STREAM TABLE orders", StreamTableNotFound, "orders")
    refused(database, "DROP STREAM TABLE orders", StreamTableNotFound, "orders")


def test_a_query_that_spark_rejects_keeps_its_message(database: SparkSession) -> None:
    refused(database, "CREATE STREAM TABLE st AS SELECT id, sum(amount) FROM orders", InvalidQuery, "MISSING_GROUP_BY")
    refused(database, "CREATE STREAM TABLE st AS SELECT nosuch(id) FROM orders", InvalidQuery, "UNRESOLVED_ROUTINE", "nosuch")


def test_a_query_that_spark_cannot_parse_shows_where_in_the_statement(database: SparkSession) -> None:
    refused(database, "CREATE STREAM TABLE st\nAS SELECT id FROM\n  orders WHERE )", InvalidQuery, "PARSE_SYNTAX_ERROR", "line 3")


@pytest.mark.parametrize(
    "query", ["SELECT id, amount AS id FROM orders", "SELECT a.id, b.ID FROM orders a JOIN orders b ON a.id = b.id"]
)
def test_duplicate_output_columns(database: SparkSession, query: str) -> None:
    refused(database, f"CREATE STREAM TABLE st AS {query}", InvalidStatement, "id", "twice")


def test_column_list_of_another_length(database: SparkSession) -> None:
    refused(database, "CREATE STREAM TABLE st (a, b) AS SELECT * FROM orders", InvalidStatement, "2", "3")


def test_an_existing_table_is_left_alone(database: SparkSession) -> None:
    refused(database, "CREATE STREAM TABLE orders AS SELECT 1 AS one", StreamTableExists, "orders")
    refused(database, "CREATE OR REPLACE STREAM TABLE orders AS SELECT 1 AS one", StreamTableExists, "orders")
    assert database.table("orders").count() == 2


def test_an_existing_stream_table_is_left_alone(database: SparkSession) -> None:
    database.sql("CREATE STREAM TABLE taken AS SELECT id FROM orders")
    try:
        refused(database, "CREATE STREAM TABLE taken AS SELECT amount FROM orders", StreamTableExists, "taken")
        assert database.table("taken").columns == ["id"]
    finally:
        database.sql("DROP STREAM TABLE taken")


@pytest.mark.parametrize("volatile", ["rand()", "uuid()", "monotonically_increasing_id()"])
def test_a_volatile_function_in_differential_mode(database: SparkSession, volatile: str) -> None:
    statement = f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS SELECT id, {volatile} AS x FROM orders"
    refused(database, statement, NotIncremental, volatile.removesuffix("()"))


def test_an_operator_without_a_rule_in_differential_mode_is_named(database: SparkSession) -> None:
    query = "SELECT id FROM orders LIMIT 1"
    refused(database, f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {query}", NotIncremental, "limit", "without order by")


def test_drop_if_exists_does_not_pass_over_an_ordinary_table(database: SparkSession) -> None:
    refused(database, "DROP STREAM TABLE IF EXISTS orders", StreamTableNotFound, "ordinary table")


def test_a_cycle_is_refused_and_both_tables_stay(database: SparkSession) -> None:
    database.sql("CREATE STREAM TABLE first_one AS SELECT id FROM orders")
    database.sql("CREATE STREAM TABLE second_one AS SELECT id FROM first_one")
    try:
        for source in ("first_one", "second_one"):
            refused(database, f"CREATE OR REPLACE STREAM TABLE first_one AS SELECT id FROM {source}", DependencyCycle, "first_one")
        for name in ("first_one", "second_one"):
            assert database.sql(f"REFRESH STREAM TABLE {name}").collect()[0]["action"] == "NO_DATA"
    finally:
        database.sql("DROP STREAM TABLE first_one CASCADE")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO guarded VALUES (3)",
        "UPDATE guarded SET id = 0",
        "DELETE FROM guarded",
        "TRUNCATE TABLE guarded",
        "ALTER TABLE guarded ADD COLUMNS (more INT)",
    ],
)
def test_dml_on_a_stream_table(database: SparkSession, statement: str) -> None:
    database.sql("CREATE STREAM TABLE guarded AS SELECT id FROM orders")
    try:
        refused(database, statement, DirectWriteRefused, "guarded")
        assert sorted(row["id"] for row in database.table("guarded").collect()) == [1, 2]
    finally:
        database.sql("DROP STREAM TABLE guarded")


def test_a_path_without_delta(database: SparkSession, tmp_path: Path) -> None:
    database.range(3).write.parquet(str(tmp_path / "plain"))
    for place in ("plain", "absent"):
        error = refused(database, f"CREATE STREAM TABLE st AS SELECT * FROM delta.`{tmp_path / place}`", InvalidQuery, place)
        assert "delta" in error.casefold()


def test_a_vanished_source_keeps_the_last_good_state(database: SparkSession) -> None:
    database.sql("CREATE TABLE vanishing (id INT) USING delta")
    database.sql("INSERT INTO vanishing VALUES (1)")
    database.sql("CREATE STREAM TABLE orphan AS SELECT id FROM vanishing")
    database.sql("DROP TABLE vanishing")
    try:
        with pytest.raises((SourceUnavailable, InvalidQuery), match="vanishing"):
            database.sql("REFRESH STREAM TABLE orphan").collect()
        assert [row["id"] for row in database.table("orphan").collect()] == [1]
        database.sql("ALTER STREAM TABLE orphan SET REFRESH MODE FULL")
        with pytest.raises(SourceUnavailable, match="vanishing"):
            database.sql("ALTER STREAM TABLE orphan SET REFRESH MODE DIFFERENTIAL")
    finally:
        database.sql("DROP STREAM TABLE orphan")


def test_a_query_that_fails_while_it_runs_leaves_nothing(database: SparkSession) -> None:
    before = folders(database), tables(database)
    for query in ("SELECT 1 / amount AS x FROM orders", "SELECT sum(1 / amount) AS x, count(*) AS n FROM orders"):
        with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
            database.sql(f"CREATE STREAM TABLE st AS {query}").collect()
        assert (folders(database), tables(database)) == before


def test_a_temporary_view_is_no_source(database: SparkSession) -> None:
    database.range(2).createOrReplaceTempView("passing")
    try:
        refused(database, "CREATE STREAM TABLE st AS SELECT id FROM passing", InvalidStatement, "passing", "temporary")
    finally:
        database.catalog.dropTempView("passing")


def test_functions_and_variables_of_the_session_are_no_part_of_a_query(database: SparkSession) -> None:
    database.sql("CREATE TEMPORARY FUNCTION next_one(x INT) RETURNS INT RETURN x + 1")
    database.sql("CREATE TEMPORARY FUNCTION ones(n INT) RETURNS TABLE (one INT) RETURN SELECT n")
    database.udf.register("doubled", lambda x: 2 * x, "int")
    database.sql("DECLARE OR REPLACE VARIABLE least INT DEFAULT 5")
    try:
        for call, name in [("next_one(id)", "next_one"), ("session.next_one(id)", "next_one"), ("doubled(id)", "doubled")]:
            query = f"SELECT {call} AS x FROM orders"
            refused(
                database, f"CREATE STREAM TABLE st AS {query}", InvalidStatement, f"temporary function {name}", "CREATE FUNCTION"
            )
        refused(database, "CREATE STREAM TABLE st AS SELECT * FROM ones(1)", InvalidStatement, "temporary function ones")
        for variable in ("least", "session.least"):
            query = f"SELECT id FROM orders WHERE amount > {variable}"
            refused(database, f"CREATE STREAM TABLE st AS {query}", InvalidStatement, "session variable least", "its value")
        refused(database, "CREATE STREAM TABLE st AS SELECT no_such(id) AS x FROM orders", InvalidQuery, "no_such")
    finally:
        database.sql("DROP TEMPORARY VARIABLE least")
        for function in ("next_one", "ones", "doubled"):
            database.sql(f"DROP TEMPORARY FUNCTION {function}")
