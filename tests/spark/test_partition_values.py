"""PARTITIONED BY: Delta keeps the values as text; what it would not give back as it is, is refused, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import Scenario

from streamtable.errors import RefreshError, StreamTableError

ZONE = "spark.sql.session.timeZone"
COLUMNS = "k INT, x TIMESTAMP, d DOUBLE, b BINARY, s STRING, dt DATE, n TIMESTAMP_NTZ, c CHAR(4), v VARCHAR(9), q DECIMAL(5, 2)"
FIRST_OF_TWO = "timestamp_micros(1761437400000000)"
SECOND_OF_TWO = "timestamp_micros(1761441000000000)"
GIVEN_BACK = (
    f"(1, {FIRST_OF_TWO}, -0.0D, X'c3a4', 'a=b/c%d e', DATE'0001-01-01', TIMESTAMP_NTZ'2025-10-26 02:30:00', 'a', 'b ', 1.10),"
    "(2, TIMESTAMP'1900-01-01 00:00:00.123456', 0.0D, X'41', ' x ', DATE'9999-12-31' + 366000, TIMESTAMP_NTZ'0001-01-01 00:00:00', 'null', 'NULL', -1.10),"
    "(3, NULL, CAST('NaN' AS DOUBLE), NULL, NULL, NULL, NULL, NULL, NULL, NULL)"
)
NOT_GIVEN_BACK = {
    "s": ("''", "CAST(X'ff41' AS STRING)", "'__HIVE_DEFAULT_PARTITION__'"),
    "b": ("X''", "X'61ff'"),
    "x": (SECOND_OF_TWO, "TIMESTAMP'9999-12-31 00:00:00' + INTERVAL 1000 DAYS"),
}


@pytest.fixture
def s(spark: SparkSession) -> Iterator[Scenario]:
    spark.conf.set(ZONE, "Europe/Berlin")
    with Scenario(spark) as scenario:
        scenario.source("p", COLUMNS, GIVEN_BACK)
        yield scenario
    spark.conf.unset(ZONE)


def test_values_of_partitions_are_stored_exactly(s: Scenario) -> None:
    for column in ("x", "d", "b", "s", "dt", "n", "c", "v", "q"):
        s.spark.sql(f"CREATE STREAM TABLE by_{column} PARTITIONED BY ({column}) AS SELECT * FROM p")
        spelt = ", ".join(f"hex(CAST({each} AS STRING))" for each in ("b", "d", "s", "dt", "n", "c", "v", "q"))
        query = f"SELECT k, unix_micros(x), {spelt} FROM {{}} ORDER BY k"
        s.spark.conf.set(ZONE, "Asia/Tokyo")  # whoever reads it
        assert s.spark.sql(query.format(f"by_{column}")).collect() == s.spark.sql(query.format("p")).collect(), column
        s.spark.conf.set(ZONE, "Europe/Berlin")


def test_a_value_that_delta_would_not_give_back_is_refused_when_it_comes(s: Scenario) -> None:
    for column, values in NOT_GIVEN_BACK.items():
        s.spark.sql(f"CREATE STREAM TABLE of_{column} PARTITIONED BY ({column}) AS SELECT k, {column} FROM p")
        for value in values:
            s.spark.sql(f"UPDATE p SET {column} = {value} WHERE k = 3")
            for full in ("", " FULL"):
                with pytest.raises(RefreshError, match=rf"of_{column}\b(.|\n)*the column {column} has the value .*PARTITIONED BY"):
                    s.spark.sql(f"REFRESH STREAM TABLE of_{column}{full}")
            assert s.spark.table(f"of_{column}").where(f"k = 3 AND {column} IS NULL").count() == 1, "the last good contents"
        as_query = f"AS SELECT k, {column} FROM p"
        for name, statement in {
            "anew": f"CREATE STREAM TABLE anew PARTITIONED BY ({column}) {as_query}",
            f"of_{column}": f"CREATE OR REPLACE STREAM TABLE of_{column} PARTITIONED BY ({column}) {as_query} WHERE k < 9",
            f"`of_{column}`": f"ALTER STREAM TABLE of_{column} {as_query} WHERE k < 8",
        }.items():
            with pytest.raises(StreamTableError, match=rf"{name}.*(.|\n)*the column {column} has the value .*PARTITIONED BY"):
                s.spark.sql(statement)
        s.spark.sql(f"UPDATE p SET {column} = NULL, k = 3 WHERE k = 3")
        s.spark.sql(f"REFRESH STREAM TABLE of_{column}")
