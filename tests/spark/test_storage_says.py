"""Storage that is full, lets itself be read alone, or is not mounted any more: every statement says what the storage says, and nothing else first."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import answer

from streamtable.errors import StorageFailed

QUERY = "SELECT id, max(amount) AS most FROM sales GROUP BY id HAVING count(*) < 9"
SUBSCRIBED = "CONNECTION 'database=mounted' PUBLICATION p"
SETUP = (
    "CREATE TABLE sales (id INT, amount INT) USING delta",
    "INSERT INTO sales VALUES (1, 10), (2, 20), (2, 20)",
    f"CREATE STREAM TABLE st AS {QUERY}",
    "CREATE STREAM TABLE above AS SELECT id FROM st",
    "CREATE QUEUE q ON sales",
    "REGISTER CONSUMER w ON q",
    "CREATE QUEUE jobs (body STRING)",
    "REGISTER CONSUMER w ON jobs",
    "INSERT INTO jobs VALUES ('a')",
    "NEXT BATCH FROM jobs FOR w",
    "CREATE PUBLICATION p FOR TABLE sales",
    "CREATE REPLICATION SLOT sl FOR PUBLICATION p",
    "CREATE TABLE copies.sales (id INT, amount INT) USING delta",
    f"CREATE SUBSCRIPTION copies.sub {SUBSCRIBED}",
    "INSERT INTO sales VALUES (3, 30)",
)
FILLS = (
    "CREATE STREAM TABLE new AS SELECT id FROM sales",
    "CREATE OR REPLACE STREAM TABLE st AS SELECT id, amount AS most FROM sales",
    "REFRESH STREAM TABLE st",
    "REFRESH STREAM TABLE st FULL",
    "REFRESH STREAM TABLE above CASCADE",
    "ALTER STREAM TABLE st SUSPEND",
    "ALTER STREAM TABLE st AS SELECT id, amount AS most FROM sales",
    "ALTER STREAM TABLE st RENAME TO new",
    "CREATE QUEUE new ON sales",
    "REGISTER CONSUMER v ON q",
    "NEXT BATCH FROM q FOR w",
    "ALTER PUBLICATION p RENAME TO new",
    "APPLY SUBSCRIPTION copies.sub",
)
"""What cannot be done on a full disk."""
WRITES = (
    *FILLS,
    "CREATE STREAM TABLE new WITH NO DATA AS SELECT id FROM sales",
    "ALTER STREAM TABLE st RESUME",
    "ALTER STREAM TABLE st SET SCHEDULE '1h'",
    "ALTER STREAM TABLE st SET REFRESH MODE FULL",
    "ALTER STREAM TABLE st SET TBLPROPERTIES ('k' = 'v')",
    "DROP STREAM TABLE above",
    "DROP STREAM TABLE st CASCADE",
    "CREATE QUEUE new (body STRING)",
    "ALTER QUEUE q SET (max_count = 5)",
    "UNREGISTER CONSUMER w ON q",
    "FINISH BATCH FROM jobs FOR w",
    "DROP QUEUE q FORCE",
    "CREATE PUBLICATION new FOR TABLE sales",
    "ALTER PUBLICATION p SET (publish = 'insert')",
    "DROP PUBLICATION p",
    "CREATE REPLICATION SLOT new FOR PUBLICATION p",
    "DROP REPLICATION SLOT sl",
    f"CREATE SUBSCRIPTION copies.new {SUBSCRIBED}",
    "ALTER SUBSCRIPTION copies.sub DISABLE",
    "DROP SUBSCRIPTION copies.sub",
)
READS = (
    "DESCRIBE STREAM TABLE st",
    "EXPLAIN STREAM TABLE st",
    "VERIFY STREAM TABLE st",
    "SHOW CONSUMERS ON q",
)


@pytest.fixture(scope="module")
def mounted(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a file system of its own with all kinds of tables and objects, in two schemas; what is refused leaves them as they were."""
    place = tmp_path_factory.mktemp("storage") / "mounted"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", place], check=False, capture_output=True).returncode:
        pytest.skip("only root may mount")
    for schema in ("mounted", "copies"):
        spark.sql(f"CREATE DATABASE {schema} LOCATION '{place}/{schema}'")
    spark.sql("USE mounted")
    for statement in SETUP:
        spark.sql(statement).collect()
    yield place
    spark.sql("USE default")
    for schema in ("copies", "mounted"):
        spark.sql(f"DROP DATABASE {schema} CASCADE")
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


def test_storage_that_is_read_only_is_what_every_statement_says(spark: SparkSession, mounted: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    try:
        refused(spark, WRITES, "Read-only file system")
        for statement in ("SHOW STREAM TABLES", *READS):
            spark.sql(statement).collect()
    finally:
        subprocess.run(["mount", "-o", "remount,rw", mounted], check=True)
    assert spark.sql("REFRESH STREAM TABLE above CASCADE").first() is not None
    assert_exact(spark, "st", QUERY)


def test_storage_that_is_not_mounted_any_more_is_what_every_statement_says(
    spark: SparkSession, mounted: Path, tmp_path: Path
) -> None:
    """Nothing is made in the empty place, and no name is forgotten, for the tables are there again when the storage is."""
    kept = tmp_path / "kept"
    kept.mkdir()
    subprocess.run(["mount", "--bind", mounted, kept], check=True)
    subprocess.run(["umount", "-l", mounted], check=True)
    try:
        refused(spark, (*WRITES, *READS), "No such file or directory")
        assert {row["status"] for row in spark.sql("SHOW STREAM TABLES").collect()} == {"UNREADABLE"}
        assert list(mounted.iterdir()) == []
    finally:
        subprocess.run(["mount", "--bind", kept, mounted], check=True)
        subprocess.run(["umount", "-l", kept], check=True)
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
