"""The ways to write: rows that go, rows that come and the frontier in one Delta transaction, and an append to others' tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamtable.delta.bridge import bridge, java_class, translated

__all__ = ["Committed", "Positions", "append_once", "commit", "positions"]


@dataclass(frozen=True)
class Positions:
    """Rows by file and index, as bitmaps that stay in the JVM; `count` is their number."""

    handle: Any
    count: int


@dataclass(frozen=True)
class Committed:
    version: int
    rows_added: int
    rows_removed: int


def positions(session: SparkSession, frame: DataFrame, path: str, version: int) -> Positions:
    """Collect the two columns of `frame` as bitmaps, built on the executors; what is deleted in `version` already is left out."""
    handle = bridge(session).positions(session._jsparkSession, frame._jdf, path, version)
    return Positions(handle, handle.count())


def commit(
    session: SparkSession,
    path: str,
    *,
    read_version: int,
    application: str,
    number: int,
    alone: bool = False,
    add: DataFrame | None = None,
    remove: Positions | None = None,
    replace_all: bool = False,
    frontier: str | None = None,
    history: str | None = None,
    schema_json: str | None = None,
    properties: Mapping[str, str | None] | None = None,
) -> Committed:
    """Commit on top of `read_version` (-1: the table is created); a commit in between raises ConcurrentRefresh.

    One that brought or removed no rows does not, unless both are of this application and this one is to be `alone`.
    `application` and `number` go into the commit as a SetTransaction, `history` as its userMetadata. A property that is None is
    removed; the property `comment` is the table's comment, as it is for Spark.
    """
    java_properties = None
    if properties is not None:
        java_properties = java_class(session, "java.util.HashMap")()
        for key, value in properties.items():
            java_properties.put(key, value)
    with translated(path):
        answer = bridge(session).commit(
            session._jsparkSession,
            path,
            read_version,
            add._jdf if add is not None else None,
            remove.handle if remove is not None else None,
            replace_all,
            frontier,
            application,
            number,
            alone,
            history,
            schema_json,
            java_properties,
        )
    return Committed(*json.loads(answer))


def append_once(table: str, rows: DataFrame, application: str, number: int) -> None:
    """Append to a Delta table by name, made if it is not there, unless the application's `number` or a later one is in it.

    Raises Delta's ConcurrentTransactionException when another writer commits for the same application meanwhile.
    """
    session = rows.sparkSession  # as for a DataFrameWriter: the name means what it means there
    if not bridge(session).append(session._jsparkSession, table, rows._jdf, application, number):
        once = {"txnAppId": application, "txnVersion": str(number)}
        rows.write.format("delta").mode("append").options(**once).saveAsTable(table)
