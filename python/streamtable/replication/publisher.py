"""Where publications, slots and published tables are: a schema that this session sees, or the folder of another catalog's."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import SparkSession

from streamtable.catalog.entries import table_names
from streamtable.catalog.paths import name_at
from streamtable.delta.folders import children
from streamtable.errors import InvalidStatement, NotSupported
from streamtable.sql.parse import parse_name
from streamtable.sql.statements import Name

__all__ = ["Folder", "Publisher", "Schema", "publisher_of"]

_HINT = "write CONNECTION 'database=schema', 'database=catalog.schema' or 'warehouse=/path database=schema'"


@dataclass(frozen=True)
class Schema:
    """A schema of a catalog that this session has."""

    namespace: tuple[str, ...]

    def name(self, name: str) -> Name:
        """Return the full name of what the publisher calls so."""
        return Name((*self.namespace, name))

    def tables(self, spark: SparkSession) -> Iterator[str]:
        """Yield the names of its tables, and perhaps of what is none."""
        return (parts[-1] for parts in table_names(spark, self.namespace))


@dataclass(frozen=True)
class Folder:
    """The folder of a schema, which has a folder for each table: only the storage is shared with the publisher, not the catalog."""

    path: str

    def name(self, name: str) -> Name:
        """Return the full name of what the publisher calls so; Spark's catalog writes folders in lower case."""
        return name_at(f"{self.path}/{name.lower()}")

    def tables(self, spark: SparkSession) -> Iterator[str]:
        """Yield the names of its tables, and perhaps of what is none."""
        return (path.rpartition("/")[2] for path in children(spark, self.path))


Publisher: TypeAlias = Schema | Folder


def publisher_of(connection: str, catalog: str) -> Publisher:
    """Return what a connection names; `catalog` is meant where it names none. Raises InvalidStatement and NotSupported."""
    try:
        pairs = dict(pair.partition("=")[::2] for pair in shlex.split(connection))
    except ValueError as error:
        raise InvalidStatement(f"the connection {connection!r} cannot be read: {error}", hint=_HINT) from error
    if outside := [key for key in pairs if key in ("host", "port", "remote")]:
        hint = "CONNECTION 'warehouse=/path database=schema' needs no more than the storage of the publisher"
        raise NotSupported(f"a publisher by {outside[0]} cannot be subscribed to yet", hint=hint)
    if not pairs or not all(pairs.values()) or pairs.keys() - {"warehouse", "database"}:
        raise InvalidStatement(f"the connection {connection!r} names no publisher", hint=_HINT)
    database = parse_name(pairs["database"]).parts if "database" in pairs else ()
    if "warehouse" not in pairs:
        if len(database) > 2:
            raise InvalidStatement(f"{pairs['database']} is no schema", hint=_HINT)
        return Schema(database if len(database) == 2 else (catalog, *database))
    root = pairs["warehouse"].rstrip("/")
    if not root.startswith("/") and ":/" not in root:
        raise InvalidStatement(f"the warehouse {root!r} is no absolute path", hint=_HINT)
    if len(database) > 1:
        raise InvalidStatement(
            f"{pairs['database']} is no schema of a warehouse", hint="its folder is called after the schema alone"
        )
    return Folder(f"{root}/{database[0].lower()}.db" if database else root)
