"""What Spark's own statements do not know of stream tables: DROP SCHEMA ... CASCADE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from streamtable.catalog.entries import entries, named_entries

__all__ = ["accompany"]


def accompany(spark: SparkSession, operation: str, name: Sequence[str], done: bool) -> list[tuple[str, str]]:
    """Do what comes before a statement, or after it when it is `done`; return its rows. Raises what speaks against it."""
    match operation, done:
        case "DROP SCHEMA", False:
            return list(_dropped_with(spark, tuple(name)))
    return []


def _dropped_with(spark: SparkSession, schema: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield the stream tables of a schema, with those of other schemas that read them, and with files that stay."""
    inside = dict(named_entries(spark, schema))
    paths = {entry.path for entry in inside.values()}
    others = [entry for entry in entries(spark) if entry.path not in paths]
    for name, entry in inside.items():
        readers = [other.definition.name for other in others if entry.path in other.definition.sources]
        read = f", and {', '.join(readers)} cannot be refreshed any more" if readers else ""
        left = f", left its files in {entry.path}" if entry.definition.statement.location else ""
        yield ".".join(name.parts), f"DROPPED{left}{read}"
