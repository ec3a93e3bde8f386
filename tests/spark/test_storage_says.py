"""Storage that is full, lets itself be read alone, or is not mounted any more: every statement says what the storage says, and nothing else first."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer, close_cursors
from tests.spark.storage_statements import ALL, FILLS, LISTS, QUERY, READS, SETUP, STOPS, WRITES

from streamtable import open_queue, subscribe
from streamtable.errors import StatementFailed, StorageFailed


@pytest.fixture(scope="module")
def mounted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a file system of its own with all kinds of tables and objects, in two schemas; what is refused leaves them as they were."""
    place = tmp_path_factory.mktemp("storage") / "mounted"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", place], check=False, capture_output=True).returncode:
        pytest.skip("only root may mount")
    try:
        for schema in ("mounted", "copies"):
            spark.sql(f"CREATE DATABASE {schema} LOCATION '{place}/{schema}'")
        spark.sql("USE mounted")
        for statement in SETUP:
            spark.sql(statement).collect()
        with pytest.raises(StatementFailed, match="no number"):
            spark.sql(STOPS)
        yield place
        close_cursors()
        spark.sql("USE default")
        for schema in ("copies", "mounted"):
            spark.sql(f"DROP DATABASE {schema} CASCADE")
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def said(spark: SparkSession, statement: str) -> str:
    """Return what is said first of a statement that fails by the storage; of another one, what it did instead."""
    try:
        spark.sql(statement).collect()
    except StorageFailed as error:
        return error.reason
    except Exception as error:  # all of them are told, not the first alone
        return f"{type(error).__name__}: {error}"
    return "done"


def refused(spark: SparkSession, statements: tuple[str, ...], why: str) -> None:
    found = {statement: said(spark, statement) for statement in statements}
    wrong = [f"{key}: {told}" for key, told in found.items() if not (told.startswith("the storage failed") and why in told)]
    assert not wrong, "\n".join(wrong)


def answered(spark: SparkSession, statements: tuple[str, ...]) -> None:
    found = {statement: said(spark, statement) for statement in statements}
    wrong = [f"{key}: {told}" for key, told in found.items() if told != "done"]
    assert not wrong, "\n".join(wrong)


def test_storage_that_is_read_only_is_what_every_statement_says(spark: SparkSession, mounted: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    try:
        refused(spark, (*WRITES, *ALL), "Read-only file system")
        answered(spark, (*READS, *LISTS))
    finally:
        subprocess.run(["mount", "-o", "remount,rw", mounted], check=True)
    assert spark.sql("REFRESH STREAM TABLE above CASCADE").first() is not None
    assert_exact(spark, "st", QUERY)


def test_storage_that_is_not_mounted_any_more_is_what_every_statement_says(
    spark: SparkSession, mounted: Path, tmp_path: Path
) -> None:
    """Nothing is made in the empty place, no name is forgotten, and no cursor ends: the tables are there again when the storage is."""
    kept = tmp_path / "kept"
    kept.mkdir()
    subprocess.run(["mount", "--bind", mounted, kept], check=True)
    subprocess.run(["umount", "-l", mounted], check=True)
    try:
        refused(spark, (*WRITES, *READS), "No such file or directory")
        answered(spark, LISTS)
        assert {row["action"] for row in spark.sql("REFRESH STREAM TABLES").collect()} == {"SKIPPED"}
        assert {row["status"] for row in spark.sql("SHOW STREAM TABLES").collect()} == {"UNREADABLE"}
        for begin in (
            lambda: open_queue(spark, "q"),
            lambda: subscribe(spark, "sales"),
            lambda: subscribe(spark, "(SELECT id FROM sales)"),
        ):
            with pytest.raises(StorageFailed, match="No such file or directory"):
                begin()
        assert list(mounted.iterdir()) == []
    finally:
        subprocess.run(["mount", "--bind", kept, mounted], check=True)
        subprocess.run(["umount", "-l", kept], check=True)
    spark.sql("INSERT INTO sales VALUES (5, 50)")
    assert (5, 50) in [row[-2:] for row in answer(spark, "FETCH ALL c WITH (TIMEOUT = '0s')")], "the cursor ended"
    assert spark.sql("REFRESH STREAM TABLE above CASCADE").first() is not None
    assert_exact(spark, "st", QUERY)


def test_a_disk_that_is_full_is_what_every_statement_says(spark: SparkSession, mounted: Path) -> None:
    """The last one with these tables, of which it drops one."""
    spark.sql("INSERT INTO sales VALUES (4, 40)")  # so that a refresh has something to write
    full = mounted / "full"
    subprocess.run(["dd", "if=/dev/zero", f"of={full}", "bs=4k"], check=False, capture_output=True)
    refused(spark, FILLS, "No space left on device")
    assert answer(spark, "DROP STREAM TABLE above") == [("spark_catalog.mounted.above", "DROPPED")]
    full.unlink()
    spark.sql("REFRESH STREAM TABLE st").collect()
    assert_exact(spark, "st", QUERY)


def test_names_can_be_dropped_whose_storage_is_gone_for_good(spark: SparkSession, tmp_path: Path) -> None:
    home = tmp_path / "gone"
    spark.sql(f"CREATE DATABASE gone LOCATION '{home}'")
    spark.sql("CREATE TABLE gone.sales (id INT) USING delta")
    spark.sql("CREATE STREAM TABLE gone.st AS SELECT id FROM gone.sales")
    shutil.rmtree(home)
    statements = (
        "DROP STREAM TABLE gone.st",
        "DROP TABLE gone.st",
        "DROP SCHEMA gone CASCADE",
        "CREATE QUEUE gone.new (body STRING)",
    )
    refused(spark, statements, f"{home}: No such file or directory")
    home.mkdir()
    assert answer(spark, "DROP STREAM TABLE gone.st") == [("spark_catalog.gone.st", "DROPPED")]
    spark.sql("DROP DATABASE gone CASCADE")
