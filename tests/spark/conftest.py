"""A small shop for the tests of statements: one database per module, one source, no stream table left from test to test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark import hosts

HURRIED = {
    "scheduler.pollSeconds": "0.2",
    "scheduler.suspendAfter": "2",
    "scheduler.retries": "1",
    "alerts.pollSeconds": "0.5",
}
"""Settings of a scheduler that does not wait long for anything."""

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


@pytest.fixture
def hurried(shop: SparkSession) -> Iterator[SparkSession]:
    """Return the shop, with a scheduler that does not wait long for anything."""
    for key, value in HURRIED.items():
        shop.conf.set(f"spark.streamtable.{key}", value)
    yield shop
    for key in HURRIED:
        shop.conf.unset(f"spark.streamtable.{key}")


@pytest.fixture(scope="session")
def expected(spark: SparkSession) -> list[hosts.Answer]:
    """Return what spark.sql answers to the script of all hosts in this process."""
    try:
        return hosts.in_session(spark.sql)
    finally:
        spark.sql("USE default")
