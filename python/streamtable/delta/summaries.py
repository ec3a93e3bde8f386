"""What each commit of a log did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TypeAlias

from pyspark.sql import SparkSession

from streamtable.delta.bridge import bridge, translated
from streamtable.errors import HistoryLost

__all__ = ["KEEP_COLUMNS", "CommitSummary", "Layout", "commits", "layout"]

KEEP_COLUMNS = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT", "CLUSTER BY")
"""Operations that write the metadata and keep the columns."""

Layout: TypeAlias = tuple[str, ...]
"""Columns of partitions, as files call them, in the order of their names."""


@dataclass(frozen=True)
class CommitSummary:
    """The effects of one commit.

    `removes_files` is true for a compaction as well. `rows` counts the rows of added and removed files, and `uncounted_bytes` is
    the size of such files without a count. `feed_bytes` is the size of the commit's change data feed; `feed` tells whether the
    commit switched the feed on or off. `metrics` are Delta's own. `schema_json` are the columns after a commit that wrote
    metadata, and `partitioned_by` the columns of its partitions, as files call them. `layouts` are the columns of partitions that
    added files have, and `removed_layouts` those in which removed files have a value: Delta leaves out NULL.
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
    partitioned_by: Layout | None = None
    layouts: tuple[Layout, ...] = ()
    removed_layouts: tuple[Layout, ...] = ()


def commits(session: SparkSession, path: str, after: int, upto: int, complete: bool = True) -> tuple[CommitSummary, ...]:
    """Summarise the commits in (after, upto].

    Raises HistoryLost when the log lacks one of them. With `complete` False, the commits that the log has are enough.
    """
    with translated(path):
        found = json.loads(bridge(session).commits(session._jsparkSession, path, after, upto))
    if complete and [each["version"] for each in found] != list(range(after + 1, upto + 1)):
        raise HistoryLost(f"the log of {path} does not hold all versions from {after + 1} to {upto} any more")
    return tuple(
        CommitSummary(
            each["version"],
            each.get("operation") or "",
            each["data_change"],
            each["removes_rows"],
            each["removes_files"],
            tuple(each["transactions"]),
            each["rows"],
            each["uncounted_bytes"],
            each["feed_bytes"],
            each.get("feed"),
            each.get("user_metadata"),
            _moment(each.get("timestamp", 0)),
            each.get("metrics", {}),
            each.get("schema"),
            tuple(each["partitioned_by"]) if "partitioned_by" in each else None,
            tuple(map(tuple, each.get("layouts", ()))),
            tuple(map(tuple, each.get("removed_layouts", ()))),
        )
        for each in found
    )


def _moment(milliseconds: int) -> datetime:
    """Return the time of a commit. A log may say anything; a time that there is not is the first one."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(0, tz=timezone.utc)


def layout(session: SparkSession, path: str, version: int) -> Layout:
    """Return the columns of partitions of a version. Raises HistoryLost if the log does not hold it any more."""
    with translated(path):
        return tuple(json.loads(bridge(session).partitions(session._jsparkSession, path, version)))
