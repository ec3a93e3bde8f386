"""DDL: Delta tables are made and get columns; the catalog gives them names, and keeps digests of definitions beside the names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.delta.bridge import bridge, translated
from streamtable.jvm.handles import local_property
from streamtable.language.names import Name

__all__ = [
    "FEW_CHECKPOINTS",
    "QUIETLY",
    "accept",
    "add_columns",
    "as_engine",
    "create",
    "drop_name",
    "register",
    "release",
    "rename",
    "sync_catalog",
]

FEW_CHECKPOINTS = {"delta.checkpointInterval": "100"}
"""A property of all tables of ours. A checkpoint costs more than a small commit; until the next one, checksums list the files."""

QUIETLY = {
    # Otherwise the catalog gets the properties too, and a definition may be too long for it.
    "spark.databricks.delta.catalog.update.enabled": "false",
    # Otherwise Delta runs a query for the earlier files. The checksum of an empty table says in any case that there are none.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
}
"""Settings of a session in which `create` makes a stream table."""


def as_engine(spark: SparkSession) -> AbstractContextManager[None]:
    """Let Spark's own DDL touch a stream table: the check rule refuses it to everybody else."""
    return local_property(spark, "streamtable.engine", "true")


def create(
    session: SparkSession,
    path: str,
    columns: StructType,
    properties: Mapping[str, str | None],
    *,
    partitioned_by: Sequence[str] = (),
    clustered_by: Sequence[str] = (),
    comment: str | None = None,
) -> None:
    """Make an empty table without a name. A property that is None is left out."""
    builder = DeltaTable.create(session).location(path).addColumns(columns)
    if partitioned_by:
        builder = builder.partitionedBy(*partitioned_by)
    if clustered_by:
        builder = builder.clusterBy(*clustered_by)
    if comment:
        builder = builder.comment(comment)
    for key, value in properties.items():
        builder = builder if value is None else builder.property(key, value)
    builder.execute()


def add_columns(session: SparkSession, path: str, columns: StructType) -> None:
    """Add those of `columns`, and of their fields, that the table lacks."""
    nothing = session.createDataFrame([], columns)
    with translated(path):
        nothing.write.format("delta").mode("append").option("mergeSchema", "true").save(path)


def register(
    session: SparkSession,
    name: Sequence[str],
    path: str,
    *,
    managed: bool,
    comment: str | None = None,
    accepted: str = "[]",
) -> None:
    """Give the table at `path` its name in the catalog, with the accepted digest. From then on others see the table."""
    _, database, table = name
    bridge(session).register(session._jsparkSession, database, table, path, managed, comment, accepted)


def rename(session: SparkSession, name: Name, to: Name) -> None:
    """Give a table another name. Spark moves the folder of a managed table."""
    session.sql(f"ALTER TABLE {name} RENAME TO {to}")


def release(session: SparkSession, name: Sequence[str]) -> None:
    """Make the catalog keep the files of a table when its name is dropped."""
    _, database, table = name
    bridge(session).release(session._jsparkSession, database, table)


def drop_name(session: SparkSession, name: Name) -> None:
    """Remove a name from the catalog, if it is there. The files of a table stay that was released."""
    session.sql(f"DROP TABLE IF EXISTS {name}")


def sync_catalog(session: SparkSession, name: Sequence[str]) -> None:
    """Write the columns and the comment of a table to the catalog, where Delta is configured to do so."""
    _, database, table = name
    bridge(session).tellCatalog(session._jsparkSession, database, table)


def accept(session: SparkSession, name: Sequence[str], to: Sequence[str], add: str, remove: Iterable[str]) -> None:
    """Add digests of definitions (JSON) to the catalog's entry of a name, and `remove` others by their tokens.

    The digests are for the name `to`, which the table may get later.
    """
    names, gone = (json.dumps(list(each)) for each in (name, to)), json.dumps(list(remove))
    bridge(session).accept(session._jsparkSession, *names, add, gone)
