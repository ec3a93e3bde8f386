"""Facts about Delta tables: where they are, their latest version, what their commits did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.delta.bridge import bridge, translated
from streamtable.errors import HistoryLost

__all__ = [
    "CommitSummary",
    "Located",
    "Retained",
    "Retention",
    "Size",
    "TableState",
    "Version",
    "applications",
    "commits",
    "drop_files",
    "drop_own",
    "files_to_compact",
    "find_table",
    "holds_files",
    "home",
    "place",
    "register",
    "release",
    "retained",
    "retention",
    "size",
    "state",
    "sync_catalog",
    "transaction",
    "versions",
]


@dataclass(frozen=True)
class Located:
    """A catalog entry: its full name, its kind (delta, view, other, none) and, for a Delta table, its path.

    `accepted` are the digests of definitions that the session's catalog keeps for this name, the latest last (catalog/accepted.py).
    """

    name: tuple[str, ...]
    kind: str
    path: str
    accepted: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Version:
    """A version of a table; the id changes when the table is recreated."""

    table_id: str
    number: int


@dataclass(frozen=True)
class TableState:
    """The latest state of a table; `frontier` is what our last refresh recorded in it, if it is ours."""

    path: str
    table_id: str
    version: int
    properties: Mapping[str, str]
    schema_json: str
    partition_columns: tuple[str, ...]
    frontier: str | None

    @property
    def schema(self) -> StructType:
        """Return the columns as a query would give them: all may be NULL, and nothing tells how column mapping stores them."""

        def without_mapping(part: dict[str, object]) -> dict[str, object]:
            return {key: value for key, value in part.items() if not key.startswith(("delta.columnMapping.", "parquet.field."))}

        return StructType.fromJson(json.loads(self.schema_json, object_hook=without_mapping)).toNullable()


@dataclass(frozen=True)
class Size:
    """Rows of a table, and bytes of its files."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class CommitSummary:
    """What one commit did.

    `removes_files` is there for a compaction as well; `rows` counts the rows of the files that came or went, `uncounted_bytes` is
    the size of those that do not tell, `feed_bytes` that of what was written into the change data feed; `feed` tells whether it
    switched that on or off. `metrics` are Delta's own, `schema_json` are the columns from there on, where the metadata was written.
    """

    version: int
    operation: str
    data_change: bool
    removes_rows: bool
    removes_files: bool
    transactions: tuple[str, ...]
    rows: int
    uncounted_bytes: int
    feed_bytes: int
    feed: bool | None
    user_metadata: str | None
    at: datetime
    metrics: Mapping[str, str] = field(default_factory=dict)
    schema_json: str | None = None


@dataclass(frozen=True)
class Retention:
    """For how long commits stay in the log, and files that left the table where they are."""

    log: timedelta
    files: timedelta


@dataclass(frozen=True)
class Retained:
    """The first version that can be read as a whole, and the first whose later changes can."""

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


def sync_catalog(session: SparkSession, name: Sequence[str]) -> None:
    """Let the catalog have the columns and the comment of one of its tables, where Delta is set to hand them on."""
    _, database, table = name
    bridge(session).tellCatalog(session._jsparkSession, database, table)


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
    )


def transaction(session: SparkSession, path: str, application: str) -> int | None:
    """Return the latest number that an application has put into the table's commits."""
    with translated(path):
        found: int | None = bridge(session).transaction(session._jsparkSession, path, application)
    return found


def applications(session: SparkSession, path: str) -> frozenset[str]:
    """Return the applications that have put a number into the table's commits."""
    with translated(path):
        return frozenset(json.loads(bridge(session).applications(session._jsparkSession, path)))


def versions(session: SparkSession, paths: Sequence[str]) -> tuple[Version | None, ...]:
    """Read the latest versions of many tables in one call; None where there is no Delta table any more."""
    found = json.loads(bridge(session).versions(session._jsparkSession, json.dumps(paths)))
    return tuple(Version(*each) if each else None for each in found)


def commits(session: SparkSession, path: str, after: int, upto: int, complete: bool = True) -> tuple[CommitSummary, ...]:
    """Summarise the commits in (after, upto].

    Raises HistoryLost when one of them is not in the log any more, unless those that are there will do (`complete` False).
    """
    with translated(path):
        found = json.loads(bridge(session).commits(session._jsparkSession, path, after, upto))
    if complete and [each["version"] for each in found] != list(range(after + 1, upto + 1)):
        raise HistoryLost(f"the log of {path} does not hold all versions from {after + 1} to {upto} any more")
    return tuple(
        CommitSummary(
            each["version"],
            each.get("operation", ""),
            each["data_change"],
            each["removes_rows"],
            each["removes_files"],
            tuple(each["transactions"]),
            each["rows"],
            each["uncounted_bytes"],
            each["feed_bytes"],
            each.get("feed"),
            each.get("user_metadata"),
            datetime.fromtimestamp(each.get("timestamp", 0) / 1000, tz=timezone.utc),
            each.get("metrics", {}),
            each.get("schema"),
        )
        for each in found
    )


def retained(session: SparkSession, path: str, after: int) -> Retained:
    """Tell what of the table's past, from version `after` on, the log and the files still hold."""
    with translated(path):
        found = json.loads(bridge(session).retained(session._jsparkSession, path, after))
    changes = max(found["commits"] - 1, *found["lost_changes"], -1)
    return Retained(max(found["tables"], *found["lost_rows"], -1), changes)


def size(session: SparkSession, path: str, version: int) -> Size | None:
    """Count the rows of the table at `version` by the statistics of its files, or estimate them; None where nothing tells."""
    with translated(path):
        found = json.loads(bridge(session).size(session._jsparkSession, path, version))
    return Size(*found) if found else None


def retention(session: SparkSession, path: str) -> Retention:
    """Read how long the table keeps what is no longer part of it."""
    with translated(path):
        found = json.loads(bridge(session).retention(session._jsparkSession, path))
    return Retention(*(timedelta(milliseconds=found[kind]) for kind in ("log", "files")))


def holds_files(session: SparkSession, path: str, version: int) -> bool:
    """Tell whether the files that a commit took out of the table, and those of its change feed, are still there."""
    with translated(path):
        return bool(bridge(session).holdsFiles(session._jsparkSession, path, version))


def files_to_compact(session: SparkSession, path: str, small: int, deleted: float) -> int:
    """Count small files beyond the first of each partition, and files of whose rows more than the part `deleted` is."""
    with translated(path):
        return int(bridge(session).filesToCompact(session._jsparkSession, path, small, deleted))


def drop_files(session: SparkSession, path: str) -> None:
    """Delete a folder in which everything is ours."""
    bridge(session).drop(session._jsparkSession, path)


def drop_own(session: SparkSession, path: str, alone: bool) -> None:
    """Delete the files that belong to the table at `path`, and its folder when nothing else is in it.

    Where the table is `alone` in it, files of Delta's that no commit names are deleted too: writes that were killed left them.
    """
    bridge(session).dropOwn(session._jsparkSession, path, alone)


def home(session: SparkSession, database: str) -> str:
    """Return the folder of a schema."""
    return str(bridge(session).home(session._jsparkSession, database)).rstrip("/")


def place(session: SparkSession, name: Sequence[str], location: str | None = None) -> str:
    """Return the folder of a table, at `location` or where the catalog puts it."""
    _, database, table = name
    return str(bridge(session).place(session._jsparkSession, database, table, location))


def register(
    session: SparkSession,
    name: Sequence[str],
    path: str,
    *,
    managed: bool,
    comment: str | None = None,
    accepted: str = "[]",
) -> None:
    """Give the table at `path` its name in the catalog, with what that accepts: the first moment at which others see it."""
    _, database, table = name
    bridge(session).register(session._jsparkSession, database, table, path, managed, comment, accepted)


def release(session: SparkSession, name: Sequence[str]) -> None:
    """Make the catalog leave the files of a table alone when its name is dropped."""
    _, database, table = name
    bridge(session).release(session._jsparkSession, database, table)
