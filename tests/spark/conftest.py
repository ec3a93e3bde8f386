"""A small shop for the tests of statements: one database per module, one source, no stream table left from test to test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark import hosts

SALES = "(1, 'north', 10), (2, 'south', 20), (2, 'south', 20), (3, NULL, 30)"


@pytest.fixture(scope="module")
def shop_database(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql("CREATE DATABASE shop")
    spark.sql("USE shop")
    yield spark
    spark.sql("USE default")
    spark.sql("DROP DATABASE shop CASCADE")


@pytest.fixture
def shop(shop_database: SparkSession) -> Iterator[SparkSession]:
    """Return a session in a database with the table `sales`: a NULL, and one row twice."""
    spark = shop_database
    spark.sql("CREATE OR REPLACE TABLE sales (id INT, region STRING, amount INT) USING delta")
    spark.sql(f"INSERT INTO sales VALUES {SALES}")
    yield spark
    for row in spark.sql("SHOW STREAM TABLES").collect():
        spark.sql(f"DROP STREAM TABLE IF EXISTS {row['name']} CASCADE")


@pytest.fixture(scope="session")
def expected(spark: SparkSession) -> list[hosts.Answer]:
    """Return what spark.sql answers to the script of all hosts in this process."""
    try:
        return hosts.in_session(spark.sql)
    finally:
        spark.sql("USE default")
