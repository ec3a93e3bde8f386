"""What the tests of statements share: run one, and look at what it left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streamtable.subscribing import cursors


def answer(spark: SparkSession, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement."""
    return [tuple(row) for row in spark.sql(sql).collect()]


def done(spark: SparkSession, sql: str) -> tuple[str, str]:
    """Run a CREATE or REFRESH; return its action and reason, of CASCADE those of the table that was named."""
    row = spark.sql(sql).collect()[0]
    return row["action"], row["reason"]


def version(spark: SparkSession, name: str) -> int:
    """Return the latest version of a table, as Delta tells it."""
    return int(spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").collect()[0]["version"])


def jobs(spark: SparkSession) -> int:
    """Return how many jobs Spark has run."""
    return int(spark._jsc.sc().dagScheduler().numTotalJobs())


def detail(spark: SparkSession, name: str) -> dict[str, Any]:
    return dict(spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].asDict())


def folder(spark: SparkSession, table: str) -> Path:
    return Path(detail(spark, table)["location"].removeprefix("file:"))


def files(spark: SparkSession, table: str) -> set[Path]:
    """List the files of a table that VACUUM looks after: neither its log nor its arrangements."""
    place = folder(spark, table)
    found = (each.relative_to(place) for each in place.rglob("*") if each.is_file() and not each.name.startswith("."))
    return {each for each in found if each.parts[0] not in ("_delta_log", "_streamtable")}


def vacuum(spark: SparkSession, table: str) -> None:
    """Delete all files that the latest version of a table does not need, and see that there were some."""
    before = files(spark, table)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert files(spark, table) < before, "VACUUM had nothing to delete"


def shown(spark: SparkSession, name: str) -> str:
    """Return what SHOW CREATE STREAM TABLE shows."""
    return str(spark.sql(f"SHOW CREATE STREAM TABLE {name}").collect()[0][0])


def properties(spark: SparkSession, name: str) -> dict[str, str]:
    """Return the properties that a user gave a table: neither Delta's nor ours."""
    return {
        key: value for key, value in detail(spark, name)["properties"].items() if not key.startswith(("delta.", "streamtable."))
    }


def unshared(spark: SparkSession, key: str) -> None:
    """Take a property of the schema `default` away, as a catalog from a backup lacks what was set since."""
    catalog = spark._jsparkSession.sessionState().catalog()
    schema = catalog.getDatabaseMetadata("default")
    left = schema.properties().removed(key)
    assert left.size() == schema.properties().size() - 1, "there was no such property"
    catalog.alterDatabase(schema.copy(schema.name(), schema.description(), schema.locationUri(), left))


def close_cursors() -> None:
    """Close the cursors that a test left open."""
    for declared in cursors._cursors.values():
        declared.cursor.subscription.close()
    cursors._cursors.clear()
