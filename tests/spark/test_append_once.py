"""An append that is made once does what Spark's own does with txnAppId and txnVersion; each case runs both ways and compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.oracle.comparison import bag
from tests.oracle.scenario import dropped, planned_once
from tests.pipeline import in_turn

from streamtable.catalog.shared import share
from streamtable.delta.commit import append_once
from streamtable.delta.tables import find_table, transactions

TABLES = {
    "the same columns": "id INT, name STRING",
    "in another order, in capitals": "NAME STRING, ID INT",
    "a wider type": "id BIGINT, name STRING",
    "a narrower type": "id SMALLINT, name STRING",
    "a type that no value fits": "id DATE, name STRING",
    "a column more": "id INT, name STRING, more INT",
    "a column less": "id INT",
    "a column made of another": "id INT, name STRING, twice INT GENERATED ALWAYS AS (id * 2)",
    "a column that must have a value": "id INT NOT NULL, name STRING, more INT NOT NULL",
}


@pytest.fixture(scope="module")
def s(spark: SparkSession) -> Iterator[SparkSession]:
    with planned_once(spark):
        spark.sql("CREATE DATABASE once")
        spark.sql("USE once")
        yield spark
    dropped(spark, "once")


def usual(table: str, rows: DataFrame, application: str, number: int) -> None:
    rows.write.format("delta").mode("append").options(txnAppId=application, txnVersion=str(number)).saveAsTable(table)


def outcome(s: SparkSession, table: str, append: object, rows: DataFrame) -> object:
    """Append, twice under one number and once under the next; return the contents, or what Spark says."""
    try:
        for number in (3, 3, 4):
            append(table, rows, "test", number)  # type: ignore[operator]
    except PySparkException as error:
        return error.getCondition() or type(error)
    except Py4JJavaError as error:
        return error.java_exception.getClass().getName()
    return bag(s, f"SELECT * FROM {table}")


def both(s: SparkSession, table: str, rows: DataFrame) -> object:
    """Return what came of it in `<table>_ours`, which is what came of it in `<table>_usual`."""
    ours, expected = outcome(s, f"{table}_ours", append_once, rows), outcome(s, f"{table}_usual", usual, rows)
    assert ours == expected
    return ours


SOME = ("the same columns", "in another order, in capitals", "a narrower type", "a column more", "a column made of another")
"""Two that fit, and one of each kind that does not; `./run fuzz -k into_a_table` has all."""


@pytest.mark.parametrize("case", in_turn(TABLES, SOME))
def test_into_a_table_of(s: SparkSession, case: str) -> None:
    name = case.replace(" ", "_").replace(",", "")
    for twin in ("ours", "usual"):
        s.sql(f"CREATE TABLE {name}_{twin} ({TABLES[case]}) USING delta")
    found = both(s, name, s.createDataFrame([(1, "a"), (2, None)], "id INT, name STRING"))
    if case in ("the same columns", "in another order, in capitals", "a wider type", "a column more", "a column made of another"):
        assert isinstance(found, Counter) and found.total() == 4, "the number that was there was skipped"


def test_a_table_that_is_not_there_is_made(s: SparkSession) -> None:
    found = both(s, "made", s.range(3).toDF("id"))
    assert isinstance(found, Counter) and found.total() == 6
    assert s.sql("DESCRIBE HISTORY made_ours").count() == 2


def test_marks_are_in_the_commit_of_the_rows(s: SparkSession) -> None:
    rows = s.range(1).toDF("id")
    for number, marks in ((1, {"test.end": 2**63 - 1}), (1, {"test.end": 5}), (2, {"test.end": 7, "test.batch": 2 << 32})):
        append_once("marked", rows, "test", number, marks)
    usual("marked", rows, "test", 2)
    found = transactions(s, find_table(s, ("marked",)).path, "test")
    assert (s.table("marked").count(), found) == (2, {"test": 2, "test.end": 7, "test.batch": 2 << 32})
    assert transactions(s, find_table(s, ("marked",)).path, "test.") == {"test.end": 7, "test.batch": 2 << 32}
    assert s.sql("DESCRIBE HISTORY marked").count() == 3, "it is made first, and the rows come with their marks"


def test_marks_are_in_the_commit_of_the_rows_where_tables_are_immediate(s: SparkSession) -> None:
    s.sql("CREATE TABLE below (id BIGINT) USING delta")
    s.sql("CREATE STREAM TABLE above SCHEDULE IMMEDIATE AS SELECT count(*) AS n FROM below")
    rows = s.range(1).toDF("id")
    try:
        for _ in range(2):
            append_once("below", rows, "test", 1, {"test.end": 7})
            assert (s.table("below").count(), s.table("above").collect()) == (1, [(1,)]), "what is above is refreshed"
        append_once("first", rows, "test", 1, {"test.end": 7})  # a table that is not there
        found = [transactions(s, find_table(s, (name,)).path, "test") for name in ("below", "first")]
        assert found == [{"test": 1, "test.end": 7}] * 2
    finally:
        share(s, "streamtable.immediate", "false")
        s.sql("DROP STREAM TABLE above")


def test_what_is_no_delta_table(s: SparkSession) -> None:
    rows = s.range(3).toDF("id")
    for twin in ("ours", "usual"):
        s.sql(f"CREATE TABLE plain_{twin} (id BIGINT) USING parquet")
        s.sql(f"CREATE VIEW seen_{twin} AS SELECT 1 AS id")
        s.sql(f"CREATE TABLE base_{twin} (id BIGINT) USING delta")
        s.sql(f"CREATE STREAM TABLE kept_{twin} AS SELECT id FROM base_{twin}")
    for table in ("plain", "seen", "kept"):
        assert not isinstance(both(s, table, rows), Counter), table
    for twin in ("ours", "usual"):
        s.sql(f"DROP STREAM TABLE kept_{twin}")


def test_partitions_paths_and_caches(s: SparkSession, tmp_path: object) -> None:
    for twin in ("ours", "usual"):
        s.sql(f"CREATE TABLE parts_{twin} (id BIGINT, p BIGINT) USING delta PARTITIONED BY (p) LOCATION '{tmp_path}/{twin}'")
        assert s.table(f"parts_{twin}").cache().count() == 0
    rows = s.range(6).selectExpr("id", "id % 2 AS p")
    found = both(s, "parts", rows)
    assert isinstance(found, Counter) and found.total() == 12, "what was cached is read again"
    append_once(f"delta.`{tmp_path}/ours`", rows, "test", 4)
    append_once(f"delta.`{tmp_path}/ours`", rows, "test", 5)
    assert s.table("parts_ours").count() == 18
    for twin in ("ours", "usual"):
        s.catalog.uncacheTable(f"parts_{twin}")


def test_it_is_counted_in_the_next_checksum_and_by_delta_itself(s: SparkSession) -> None:
    rows = s.range(1).toDF("id")
    append_once("mixed", rows, "test", 1)
    append_once("mixed", rows, "test", 2)
    usual("mixed", rows, "test", 2)
    usual("mixed", rows, "test", 3)
    append_once("mixed", rows, "test", 3)
    append_once("mixed", rows, "other", 3)
    assert s.table("mixed").count() == 4


def test_a_command_is_not_run_again(s: SparkSession) -> None:
    s.sql("CREATE TABLE counter USING delta AS SELECT 1 AS n")
    append_once("answers", s.range(0).selectExpr("id AS num_affected_rows"), "test", 1)
    append_once("answers", s.sql("UPDATE counter SET n = n + 1"), "test", 2)
    assert s.table("answers").collect() == [(1,)] and s.table("counter").collect() == [(2,)]


def test_a_number_of_the_session_is_not_taken_for_one_of_this_write(s: SparkSession) -> None:
    s.sql("CREATE TABLE numbered (id BIGINT) USING delta")
    numbers = {"spark.databricks.delta.write.txnAppId": "theirs", "spark.databricks.delta.write.txnVersion": "5"}
    for key, value in numbers.items():
        s.conf.set(key, value)
    append_once("numbered", s.range(1), "test", 1)
    s.sql("INSERT INTO numbered VALUES (1)")
    for key in numbers:
        s.conf.unset(key)
    assert s.table("numbered").count() == 2


def test_of_two_at_once_one_is_kept(s: SparkSession) -> None:
    s.sql("CREATE TABLE twice (id BIGINT) USING delta")
    for number in range(8):
        ready = Barrier(2)

        def append(number: int = number, ready: Barrier = ready) -> str:
            rows = s.range(1).toDF("id")
            ready.wait()
            try:
                append_once("twice", rows, "test", number)
            except (PySparkException, Py4JJavaError) as error:
                return str(error)
            return ""

        with ThreadPoolExecutor(2) as pool:
            ended = [pool.submit(append) for _ in range(2)]
        said = sorted(each.result() for each in ended)
        assert not said[0] and (not said[1] or "DELTA_CONCURRENT_TRANSACTION" in said[1])
        assert s.table("twice").count() == number + 1
