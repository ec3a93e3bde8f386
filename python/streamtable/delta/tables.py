"""Facts about Delta tables: their paths, their latest versions, and the effects of their commits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.delta.bridge import bridge, translated
from streamtable.delta.version import Version

__all__ = [
    "ALWAYS",
    "FORGETS",
    "NEVER",
    "Located",
    "Retained",
    "Retention",
    "Size",
    "TableState",
    "Version",
    "applications",
    "drop_files",
    "drop_own",
    "files_to_compact",
    "find_table",
    "holds_files",
    "home",
    "place",
    "retained",
    "retention",
    "size",
    "state",
    "transaction",
    "transactions",
    "versions",
]

FORGETS = "delta.setTransactionRetentionDuration"
"""The property of a table by which Delta forgets numbers of `transactions` after some time."""


@dataclass(frozen=True)
class Located:
    """A catalog entry: its full name, its kind (delta, view, other, none) and, for a Delta table, its path.

    `accepted` are the digests of definitions that the catalog keeps for this name, the latest one last (catalog/accepted.py).
    """

    name: tuple[str, ...]
    kind: str
    path: str
    accepted: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class TableState:
    """The latest state of a table. `frontier`: our last refresh of it, if it is ours. `clustering`: it is clustered, or was."""

    path: str
    table_id: str
    version: int
    properties: Mapping[str, str]
    schema_json: str
    partition_columns: tuple[str, ...]
    frontier: str | None
    clustering: bool = False
    commit: str | None = None

    @property
    def latest(self) -> Version:
        """Return the version of this state."""
        return Version(self.table_id, self.version, self.commit)

    @property
    def schema(self) -> StructType:
        """Return the columns as a query gives them: all nullable, without the metadata of column mapping."""

        def without_mapping(part: dict[str, object]) -> dict[str, object]:
            return {key: value for key, value in part.items() if not key.startswith(("delta.columnMapping.", "parquet.field."))}

        return StructType.fromJson(json.loads(self.schema_json, object_hook=without_mapping)).toNullable()


@dataclass(frozen=True)
class Size:
    """The number of rows of a table, and the bytes of its files."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Retention:
    """How long commits stay in the log, and how long removed files stay in the storage."""

    log: timedelta
    files: timedelta


@dataclass(frozen=True)
class Retained:
    """The first version that can be read as a whole, and the first version whose later changes can be read."""

    table: int
    changes: int


def find_table(session: SparkSession, parts: Sequence[str]) -> Located:
    """Look a name up in its catalog; a name of one or two parts is completed with the current catalog and namespace."""
    try:
        found = json.loads(bridge(session).locate(session._jsparkSession, json.dumps(parts)))
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "CatalogNotFoundException":
            raise
        return Located(tuple(parts), "none", "")
    return Located(tuple(found["name"]), found["kind"], found["path"], tuple(found["accepted"]))


def state(session: SparkSession, path: str) -> TableState:
    """Read the latest state of the table at `path`. Raises SourceUnavailable when there is no Delta table."""
    with translated(path):
        found = json.loads(bridge(session).state(session._jsparkSession, path))
    return TableState(
        path,
        found["table_id"],
        found["version"],
        found["properties"],
        found["schema_json"],
        tuple(found["partition_columns"]),
        found.get("frontier"),
        found["clustering"],
        found.get("commit"),
    )


def transaction(session: SparkSession, path: str, application: str) -> int | None:
    """Return the latest number of an application in the table's commits."""
    with translated(path):
        found: int | None = bridge(session).transaction(session._jsparkSession, path, application)
    return found


def applications(session: SparkSession, path: str) -> frozenset[str]:
    """Return the applications that have a number in the table's commits."""
    with translated(path):
        return frozenset(json.loads(bridge(session).applications(session._jsparkSession, path)))


def transactions(session: SparkSession, path: str, prefix: str) -> dict[str, int]:
    """Return the latest numbers of the applications whose names begin with a prefix, in the table's commits."""
    with translated(path):
        found: dict[str, int] = json.loads(bridge(session).transactions(session._jsparkSession, path, prefix))
    return found


def versions(session: SparkSession, paths: Sequence[str]) -> tuple[Version | None, ...]:
    """Read the latest versions of many tables in one call; None for a path without a Delta table."""
    with translated(", ".join(paths)):
        found = json.loads(bridge(session).versions(session._jsparkSession, json.dumps(paths)))
    return tuple(Version(*each) if each else None for each in found)


def retained(session: SparkSession, path: str, after: int) -> Retained:
    """Return how much of the table's past, from version `after` on, the log and the files still hold."""
    with translated(path):
        found = json.loads(bridge(session).retained(session._jsparkSession, path, after))
    changes = max(found["commits"] - 1, *found["lost_changes"], -1)
    return Retained(max(found["tables"], *found["lost_rows"], -1), changes)


def size(session: SparkSession, path: str, version: int) -> Size | None:
    """Return the number of rows at `version`, by statistics of the files or estimated; None where neither is possible."""
    with translated(path):
        found = json.loads(bridge(session).size(session._jsparkSession, path, version))
    return Size(*found) if found else None


def retention(session: SparkSession, path: str) -> Retention:
    """Read how long the table keeps old commits and removed files."""
    with translated(path):
        found = json.loads(bridge(session).retention(session._jsparkSession, path))
    return Retention(*(timedelta(milliseconds=found[kind]) for kind in ("log", "files")))


def holds_files(session: SparkSession, path: str, version: int) -> bool:
    """Tell whether the files that a commit removed, and the files of its change feed, still exist."""
    with translated(path):
        return bool(bridge(session).holdsFiles(session._jsparkSession, path, version))


def files_to_compact(session: SparkSession, path: str, small: int, deleted: float) -> int:
    """Count small files beyond the first of each partition, and files whose share of deleted rows exceeds `deleted`."""
    with translated(path):
        return int(bridge(session).filesToCompact(session._jsparkSession, path, small, deleted))


ALWAYS, NEVER = 2**63 - 1, -1
"""Times for `drop_own`."""


def drop_files(session: SparkSession, table: str, path: str) -> None:
    """Delete a folder in the hidden folder of the table at `table`. Raises DefinitionNotAccepted for any other, and for a link."""
    bridge(session).drop(session._jsparkSession, table, path)


def drop_own(session: SparkSession, path: str, until: int) -> None:
    """Delete the files that belong to the table at `path`, and its folder when the folder is empty then.

    `until`: files of Delta that no commit names, as killed writes leave them, are deleted too if they were last written by this
    time, in milliseconds since 1970. ALWAYS is for a folder that no other table uses, NEVER for one that others may have used.
    """
    bridge(session).dropOwn(session._jsparkSession, path, until)


def home(session: SparkSession, database: str) -> str:
    """Return the folder of a schema."""
    return str(bridge(session).home(session._jsparkSession, database)).rstrip("/")


def place(session: SparkSession, name: Sequence[str], location: str | None = None) -> str:
    """Return the folder of a table: `location`, or else the catalog's place for it."""
    _, database, table = name
    return str(bridge(session).place(session._jsparkSession, database, table, location))
