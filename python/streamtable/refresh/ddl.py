"""Spark's own DDL on a stream table: only the engine may run it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.algebra.reading import Reading
from streamtable.catalog.definition import DELTA_PROPERTIES, Definition
from streamtable.catalog.entries import Entry, at_home, find, find_at
from streamtable.delta.tables import drop_files, tell_catalog
from streamtable.errors import StreamTableNotFound
from streamtable.refresh.jobs import local_property
from streamtable.sessions import like
from streamtable.sql.statements import Name

__all__ = ["make", "rename", "take_back", "unmake"]

_CREATING = {
    # The catalog would have the properties as well, and a definition may be too long for it.
    "spark.databricks.delta.catalog.update.enabled": "false",
    # Delta would ask by a query which files there were before; that an empty table has none, its checksum says in any case.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
}
"""Settings of Delta for the commit that makes an empty table."""


def _as_engine(spark: SparkSession) -> AbstractContextManager[None]:
    """Let Spark's own DDL touch a stream table: the check rule refuses it to everybody else."""
    return local_property(spark, "streamtable.engine", "true")


def make(spark: SparkSession, definition: Definition, schema: StructType, reading: Reading) -> None:
    """Create the empty table; nothing is left behind when that fails."""
    statement = definition.statement
    # Delta's builder takes a name of the session catalog, in two parts.
    builder = DeltaTable.create(like(at_home(spark), _CREATING)).tableName(str(Name(statement.name.parts[1:]))).addColumns(schema)
    if statement.partitioned_by:
        builder = builder.partitionedBy(*statement.partitioned_by)
    if statement.clustered_by:
        builder = builder.clusterBy(*statement.clustered_by)
    if statement.comment:
        builder = builder.comment(statement.comment)
    if statement.location:
        builder = builder.location(statement.location)
    for key, value in {**DELTA_PROPERTIES, **dict(statement.properties), **definition.properties(reading)}.items():
        builder = builder if value is None else builder.property(key, value)
    try:
        with _as_engine(spark):
            builder.execute()
        tell_catalog(spark, statement.name.parts)
    except BaseException:
        take_back(spark, statement.name, definition.id)
        raise


def take_back(spark: SparkSession, name: Name, identity: str) -> None:
    """Drop what a failing CREATE made, on a thread of its own: that of a cancelled statement is interrupted, its jobs cancelled."""
    with ThreadPoolExecutor(1) as another:
        another.submit(unmake, spark, name, identity).result()


def unmake(spark: SparkSession, name: Name, identity: str) -> None:
    """Drop the table of this name and its files, if it is there and has this id; one that another session made stays."""
    located, entry = find(spark, name)
    if entry is not None and entry.definition.id == identity:
        with _as_engine(spark):
            spark.sql(f"DROP TABLE IF EXISTS {Name(located.name)}")
        drop_files(spark, entry.path)


def rename(spark: SparkSession, entry: Entry, to: Name) -> Entry:
    """Give the table another name in its schema."""
    with _as_engine(spark):
        spark.sql(f"ALTER TABLE {entry.definition.statement.name} RENAME TO {Name(to.parts[1:])}")
    renamed = find_at(spark, find(spark, to)[0].path)
    if renamed is None:
        raise StreamTableNotFound(f"{'.'.join(to.parts)} was not found after it was renamed")
    return renamed
