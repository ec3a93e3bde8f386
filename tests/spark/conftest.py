"""A small shop for the tests of statements: a database for each test, with one source, dropped whole at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pytest
from pyspark.sql import SparkSession
from tests.oracle.scenario import dropped, planned_once
from tests.spark import hosts
from tests.spark.script import BRIEF, SCRIPT

HURRIED = {
    "scheduler.pollSeconds": "0.2",
    "scheduler.suspendAfter": "2",
    "scheduler.retries": "1",
    "alerts.pollSeconds": "0.5",
}
"""Settings of a scheduler that does not wait long for anything."""

SALES = "(1, 'north', 10), (2, 'south', 20), (2, 'south', 20), (3, NULL, 30)"


@pytest.fixture
def shop(spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session in a database with the table `sales`: a NULL, and one row twice."""
    with planned_once(spark):
        spark.sql("CREATE DATABASE shop")
        spark.sql("USE shop")
        spark.sql("CREATE TABLE sales (id INT, region STRING, amount INT) USING delta")
        spark.sql(f"INSERT INTO sales VALUES {SALES}")
        yield spark
        dropped(spark, "shop")


@pytest.fixture
def hurried(shop: SparkSession) -> Iterator[SparkSession]:
    """Return the shop, with a scheduler that does not wait long for anything."""
    for key, value in HURRIED.items():
        shop.conf.set(f"spark.streamtable.{key}", value)
    yield shop
    for key in HURRIED:
        shop.conf.unset(f"spark.streamtable.{key}")


@pytest.fixture(scope="session")
def expected(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[hosts.Answer]:
    """Return what spark.sql answers to the whole script of hosts."""
    return told_in_session(spark, tmp_path_factory, "whole", SCRIPT)


@pytest.fixture(scope="session")
def expected_briefly(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[hosts.Answer]:
    """Return what spark.sql answers to the brief script of hosts."""
    return told_in_session(spark, tmp_path_factory, "brief", BRIEF)


def told_in_session(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, name: str, script: Sequence[str]
) -> list[hosts.Answer]:
    """Return what spark.sql answers in this process, or in the one beside it that asked before."""
    own = tmp_path_factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    if not (told := shared / f"answers-{name}").exists():
        try:
            answers = hosts.in_session(spark.sql, script)
        finally:
            spark.sql("USE default")
        (own / name).write_text(hosts.written(answers))
        (own / name).rename(told)  # never half of it
    return hosts.read(told.read_text())
