"""What Spark's own statements do not know of stream tables: DROP SCHEMA ... CASCADE, CREATE OR REPLACE TABLE."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql import SparkSession

from streamtable.catalog.entries import entries, find, named_entries, readers_of
from streamtable.delta.folders import children
from streamtable.delta.tables import drop_files
from streamtable.engine.arrangements import folder_of
from streamtable.errors import DependentsExist
from streamtable.language.names import Name

__all__ = ["accompany"]


def accompany(spark: SparkSession, operation: str, name: Sequence[str], done: bool) -> list[tuple[str, str]]:
    """Do what comes before a statement, or after it when it is `done`; return its rows. Raises what speaks against it."""
    match operation, done:
        case "DROP SCHEMA", False:
            return list(_dropped_with(spark, tuple(name)))
        case "CREATE OR REPLACE TABLE", _:
            _becomes_ordinary(spark, tuple(name), done)
    return []


def _becomes_ordinary(spark: SparkSession, name: tuple[str, ...], done: bool) -> None:
    """Refuse to make an ordinary table of a stream table that others read; delete its hidden states when Spark has `done` so."""
    located, entry = find(spark, Name(name))
    if done:
        if located.path and entry is None:  # another session may have dropped it since, or made a stream table of it
            for folder in children(spark, folder_of(located.path)):
                drop_files(spark, folder)
    elif readers := readers_of(spark, located.path):
        raise DependentsExist(
            f"{'.'.join(name)} is a stream table, and is read by {', '.join(readers)}",
            hint="drop what reads it first, or give it another query: CREATE OR REPLACE STREAM TABLE",
        )


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
