"""One Spark session for all tests that need Spark; the rings without Spark never ask for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamtable import configure


@pytest.fixture(scope="session")
def working_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that holds the metastore and the warehouse of the session under test."""
    return tmp_path_factory.mktemp("working")


@pytest.fixture(scope="session")
def spark(working_folder: Path) -> Iterator[SparkSession]:
    """Return a session as a user gets it from `configure`, small enough for two cores."""
    before = Path.cwd()
    os.chdir(working_folder)  # configure() keeps the metastore and the warehouse in the current folder
    try:
        builder = configure(SparkSession.builder.master("local[2]").appName("streamtable tests"))
    finally:
        os.chdir(before)
    session = (
        builder.config("spark.driver.memory", "3g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.databricks.delta.snapshotPartitions", "2")
        .config("spark.streamtable.auto.fullShare", "1e9")  # what runs take must not decide what a test sees
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()
