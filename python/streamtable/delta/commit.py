"""Writing: removed rows, added rows and the frontier in one Delta transaction, and an append to tables of users."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from tenacity import Retrying, retry_if_exception_type
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT

from streamtable.delta.bridge import bridge, translated
from streamtable.delta.tables import find_table
from streamtable.errors import ConcurrentRefresh, clear_frames
from streamtable.jvm.failures import java_exception
from streamtable.jvm.gateway import java_class
from streamtable.language.parse import parse_name

__all__ = [
    "Committed",
    "Metadata",
    "Positions",
    "RowChange",
    "Transaction",
    "again_after_conflicts",
    "append_once",
    "commit",
    "positions",
]

Properties: TypeAlias = Mapping[str, str]
LazyText: TypeAlias = str | Callable[[], str]
"""A text, or a function that returns it: it is called when the files of the commit are written."""

_OF_NO_FILE = frozenset(
    f"delta.{key}"
    for key in (
        "autoOptimize.autoCompact",
        "autoOptimize.optimizeWrite",
        "checkpointInterval",
        "checkpointPolicy",
        "dataSkippingNumIndexedCols",
        "dataSkippingStatsColumns",
        "deletedFileRetentionDuration",
        "enableExpiredLogCleanup",
        "logRetentionDuration",
        "setTransactionRetentionDuration",
        "targetFileSize",
        "tuneFileSizesForRewrites",
    )
)
"""Properties of Delta that make no demand on the files of a commit."""


@dataclass(frozen=True)
class Positions:
    """Positions of rows (file and index), as bitmaps that stay in the JVM. `count` is their number."""

    handle: Any
    count: int


@dataclass(frozen=True)
class Transaction:
    """The author of a commit: the table keeps the latest `number` of each `application`, as Delta's SetTransaction.

    `alone`: any commit of the application in between is a conflict, also one that changed no rows.
    """

    application: str
    number: int
    alone: bool = False


@dataclass(frozen=True)
class RowChange:
    """The rows that a commit adds, and the positions that it removes; None where there are none.

    With `replace_all`, the commit removes all other rows of the table.
    """

    add: DataFrame | None = None
    remove: Positions | None = None
    replace_all: bool = False


@dataclass(frozen=True)
class Metadata:
    """The rest of a commit: the `frontier`, its line in the `history` (userMetadata), columns, properties. None: as before.

    A property that is None is removed. The property `comment` is the table's comment, as for Spark. `schema_json` may hold a
    `layout` beside the fields: the names of the columns that the table is `partitioned_by` and `clustered_by` from now on.
    """

    frontier: LazyText | None = None
    history: LazyText | None = None
    schema_json: str | None = None
    properties: Mapping[str, str | None] | None = None


_NO_ROWS, _NO_METADATA = RowChange(), Metadata()


@dataclass(frozen=True)
class Committed:
    version: int
    rows_added: int
    rows_removed: int


def positions(session: SparkSession, frame: DataFrame, path: str, version: int) -> Positions:
    """Collect the two columns of `frame` as bitmaps, built on the executors. Rows that `version` already deleted are left out."""
    handle = bridge(session).positions(session._jsparkSession, frame._jdf, path, version)
    return Positions(handle, handle.count())


def commit(
    session: SparkSession,
    path: str,
    read_version: int,
    by: Transaction,
    rows: RowChange = _NO_ROWS,
    metadata: Metadata = _NO_METADATA,
    allows: Callable[[Properties, Properties], bool] | None = None,
    table_id: str | None = None,
) -> Committed:
    """Commit on top of `read_version` (-1 creates the table). A commit in between raises ConcurrentRefresh, with two exceptions.

    It does so as well if somebody made or dropped the table meanwhile, or if another table than `table_id` is at the path. The log
    is looked at once more when the files are written.

    A commit in between that changed no rows does no harm, unless this commit is to be `alone` and both are of one application.
    A commit in between that changed only properties does no harm if `allows` says so, given the properties before and after.
    """
    java_properties = None
    if metadata.properties is not None:
        java_properties = java_class(session, "java.util.HashMap")()
        for key, value in metadata.properties.items():
            java_properties.put(key, value)
    with translated(path):
        pending = bridge(session).prepare(
            session._jsparkSession,
            path,
            read_version,
            table_id,
            rows.add._jdf if rows.add is not None else None,
            rows.remove.handle if rows.remove is not None else None,
            rows.replace_all,
            by.application,
            by.number,
            by.alone,
            metadata.schema_json,
            java_properties,
        )
        pending.tell(*(told() if callable(told) else told for told in (metadata.frontier, metadata.history)))
        return Committed(*json.loads(_on_top(pending, allows)))


def _on_top(pending: Any, allows: Callable[[Properties, Properties], bool] | None) -> str:
    """Commit the same files on top of the commits in between, if they are allowed."""
    try:
        return str(pending.commit())
    except (Py4JJavaError, CapturedException) as error:
        java = java_exception(error)
        changed = java is not None and "MetadataChanged" in java.getClass().getSimpleName()
        if allows is None or not changed or (told := pending.meanwhile()) is None or not _alike(json.loads(told), allows):
            raise
        clear_frames(error)
    return _on_top(pending, allows)


def _alike(told: Sequence[Properties], allows: Callable[[Properties, Properties], bool]) -> bool:
    """Tell whether files that were written for the table as it was fit the table as it is."""
    before, after = told
    keys = {key for key in before.keys() | after.keys() if key.startswith("delta.")} - _OF_NO_FILE
    return all(before.get(key) == after.get(key) for key in keys) and allows(before, after)


def again_after_conflicts(stop: StopBaseT, wait: WaitBaseT) -> Retrying:
    """Return the policy of a task that reads a table and commits to it, and begins again when another commit came first."""
    return Retrying(retry=retry_if_exception_type(ConcurrentRefresh), stop=stop, wait=wait, reraise=True)


def append_once(table: str, rows: DataFrame, application: str, number: int, marks: Mapping[str, int] | None = None) -> None:
    """Append to a Delta table by name, and create a missing one. Do nothing if the table has the application's `number` or a
    later one.

    `marks` are numbers of other applications that the commit has, too. Raises Delta's ConcurrentTransactionException when another
    writer commits for the same application meanwhile.
    """
    session = rows.sparkSession  # the name is resolved in this session, as by a DataFrameWriter

    def appended() -> bool:
        told = json.dumps(marks or {})
        return bool(bridge(session).append(session._jsparkSession, table, rows._jdf, application, number, told))

    if appended():
        return
    if marks and find_table(session, parse_name(table).parts).kind == "none":
        # Spark's writer gives a commit one number alone: it makes the table, and the rows come after.
        session.createDataFrame([], rows.schema).write.format("delta").mode("append").saveAsTable(table)
        if appended():
            return
    once = {"txnAppId": application, "txnVersion": str(number)}
    rows.write.format("delta").mode("append").options(**once).saveAsTable(table)
