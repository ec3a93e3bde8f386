"""Spark's own DDL on a stream table: only the engine may run it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.algebra.reading import BoundQuery
from streamtable.catalog.accepted import accept, accepted
from streamtable.catalog.definition import DELTA_PROPERTIES, Definition, code_of
from streamtable.catalog.entries import Entry, at_home, find
from streamtable.catalog.halves import ENGINE
from streamtable.delta.tables import register, state, sync_catalog
from streamtable.errors import StreamTableNotFound
from streamtable.jvm.handles import local_property
from streamtable.language.names import Name
from streamtable.sessions.internal import like

__all__ = ["make", "publish", "rename"]

_CREATING = {
    # Otherwise the catalog gets the properties too, and a definition may be too long for it.
    "spark.databricks.delta.catalog.update.enabled": "false",
    # Otherwise Delta runs a query for the earlier files. The checksum of an empty table says in any case that there are none.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
}
"""Settings of Delta for the commit that makes an empty table."""


def _as_engine(spark: SparkSession) -> AbstractContextManager[None]:
    """Let Spark's own DDL touch a stream table: the check rule refuses it to everybody else."""
    return local_property(spark, ENGINE, "true")


def make(spark: SparkSession, definition: Definition, schema: StructType, bound: BoundQuery, path: str) -> Entry:
    """Create the empty table at a path; it has no name yet."""
    statement = definition.statement
    builder = DeltaTable.create(like(at_home(spark), _CREATING)).location(path).addColumns(schema)
    if statement.partitioned_by:
        builder = builder.partitionedBy(*statement.partitioned_by)
    if statement.clustered_by:
        builder = builder.clusterBy(*statement.clustered_by)
    if statement.comment:
        builder = builder.comment(statement.comment)
    for key, value in {**DELTA_PROPERTIES, **dict(statement.properties), **definition.properties(bound)}.items():
        builder = builder if value is None else builder.property(key, value)
    with _as_engine(spark):
        builder.execute()
    return Entry(definition, state(spark, path), statement.name.parts)


def publish(spark: SparkSession, entry: Entry, bound: BoundQuery) -> None:
    """Give the table its name, by which others see it from then on, and have the catalog accept the definition."""
    statement, code = entry.definition.statement, code_of(entry.definition.properties(bound))
    managed = statement.location is None
    register(spark, statement.name.parts, entry.path, managed=managed, comment=statement.comment, accepted=accepted(code))
    sync_catalog(spark, statement.name.parts)


def rename(spark: SparkSession, entry: Entry, to: Name) -> Entry:
    """Give the table another name in its schema, under which the catalog accepts the definition."""
    accept(spark, entry.name, code_of(entry.state.properties), to=to.parts)
    with _as_engine(spark):
        spark.sql(f"ALTER TABLE {Name(entry.name)} RENAME TO {Name(to.parts[1:])}")
    renamed = find(spark, to)[1]
    if renamed is None:
        raise StreamTableNotFound(f"{'.'.join(to.parts)} was not found after it was renamed")
    return renamed
