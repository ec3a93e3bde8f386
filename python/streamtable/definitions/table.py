"""The Delta table of a definition: made without a name, published under its name, renamed."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.algebra.reading import BoundQuery
from streamtable.catalog.accepted import accept, accepted
from streamtable.catalog.definition import DELTA_PROPERTIES, Definition, code_of, over
from streamtable.catalog.entries import Entry, at_home, find
from streamtable.delta import ddl
from streamtable.delta.tables import state
from streamtable.errors import StreamTableNotFound
from streamtable.language.names import Name
from streamtable.sessions.internal import like

__all__ = ["make", "publish", "rename"]


def make(spark: SparkSession, definition: Definition, schema: StructType, bound: BoundQuery, path: str) -> Entry:
    """Create the empty table at a path; it has no name yet."""
    statement = definition.statement
    with ddl.as_engine(spark):
        ddl.create(
            like(at_home(spark), ddl.QUIETLY),
            path,
            schema,
            {**over(DELTA_PROPERTIES, dict(statement.properties)), **definition.properties(bound)},
            partitioned_by=statement.partitioned_by,
            clustered_by=statement.clustered_by,
            comment=statement.comment,
        )
    return Entry(definition, state(spark, path), statement.name.parts)


def publish(spark: SparkSession, entry: Entry, bound: BoundQuery) -> None:
    """Give the table its name, by which others see it from then on, and have the catalog accept the definition."""
    statement, code = entry.definition.statement, code_of(entry.definition.properties(bound))
    managed = statement.location is None
    ddl.register(spark, statement.name.parts, entry.path, managed=managed, comment=statement.comment, accepted=accepted(code))
    ddl.sync_catalog(spark, statement.name.parts)


def rename(spark: SparkSession, entry: Entry, to: Name) -> Entry:
    """Give the table another name in its schema, under which the catalog accepts the definition."""
    accept(spark, entry.name, code_of(entry.state.properties), to=to.parts)
    with ddl.as_engine(spark):
        ddl.rename(spark, Name(entry.name), Name(to.parts[1:]))
    renamed = find(spark, to)[1]
    if renamed is None:
        raise StreamTableNotFound(f"{'.'.join(to.parts)} was not found after it was renamed")
    return renamed
