"""Maintenance of Delta tables: small files become few, and files that no commit of the last days names go."""

from __future__ import annotations

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from streamtable.delta.bridge import translated

__all__ = ["UNLOGGED", "compact", "file_sizes"]

UNLOGGED = {"spark.databricks.delta.vacuum.logging.enabled": "false"}
"""A setting of a session in which VACUUM writes no commits."""


def file_sizes(small: int, full: int, deleted: float) -> dict[str, str]:
    """Return the settings of a session in which `compact` rewrites files below `small` bytes into files of `full` bytes.

    Files whose share of deleted rows exceeds `deleted` are rewritten too.
    """
    return {
        "spark.databricks.delta.optimize.minFileSize": str(small),
        "spark.databricks.delta.optimize.maxFileSize": str(full),
        "spark.databricks.delta.optimize.maxDeletedRowsRatio": str(deleted),
    }


def compact(session: SparkSession, path: str, vacuum: bool) -> None:
    """OPTIMIZE a table, and VACUUM it. Raises ConcurrentRefresh if a refresh commits meanwhile."""
    with translated(path):
        table = DeltaTable.forPath(session, path)
        table.optimize().executeCompaction()
        if vacuum:
            table.vacuum()
