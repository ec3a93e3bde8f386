"""Rows of Delta tables: a table at a version, and the change between two versions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from streamtable.delta.bridge import bridge, translated
from streamtable.delta.commit_ids import layout_of
from streamtable.delta.summaries import CommitSummary, commits
from streamtable.delta.tables import state
from streamtable.errors import SourceUnavailable
from streamtable.jvm.failures import lost_file
from streamtable.jvm.gateway import frame_of

__all__ = ["COMMIT_VERSION", "ChangeSet", "change_set", "read", "read_located", "reads_feed"]

COMMIT_VERSION = "__streamtable_version"
"""Names the column of a change set that tells which version of the table changed the row."""

_EXACT = frozenset({"DELETE", "UPDATE", "MERGE"})
"""Operations whose change, by feed or deletion vectors, holds only rows that differ."""


@dataclass(frozen=True)
class ChangeSet:
    """The changed rows of the versions (after, upto], with the columns WEIGHT (+1 or -1) and COMMIT_VERSION.

    `appends_only` says that no row went. `carries_over` says that a row may appear with both signs: either the row did not change,
    or it came and went in between. `updates` says so of rows without some of their columns: an update may have changed just those.
    """

    frame: DataFrame
    mode: str
    appends_only: bool
    carries_over: bool
    updates: bool


def read(session: SparkSession, path: str, version: int) -> DataFrame:
    """Read the table as of `version`, with the latest schema."""
    with translated(path):
        return frame_of(session, bridge(session).read(session._jsparkSession, path, version))


def read_located(session: SparkSession, path: str, version: int, deleted: bool = False) -> DataFrame:
    """Read it with the position of each row; with `deleted`, which is cheaper, rows that are marked as deleted may be there."""
    with translated(path):
        return frame_of(session, bridge(session).located(session._jsparkSession, path, version, deleted))


def reads_feed(session: SparkSession, path: str, pending: Sequence[CommitSummary]) -> bool:
    """Tell whether the change data feed is on and was not off for any of the commits."""
    feed = state(session, path).properties.get("delta.enableChangeDataFeed") == "true"
    return feed and all(each.feed is not False for each in pending)


def change_set(session: SparkSession, path: str, after: int, upto: int, mode: str = "auto") -> ChangeSet:
    """Read what changed in the versions (after, upto]: from the change data feed where it is on, else from the files.

    Commits without change files are read from their added and removed files in either mode, so a feed that was switched on
    half-way is exact as well. Raises HistoryLost when the log has a gap, or the table got other partitions.
    """
    summaries = commits(session, path, after, upto)
    files = layout_of(session, path, after, summaries)
    partitions = None if files is None else json.dumps(files)
    coarse = mode == "diff" or not reads_feed(session, path, summaries)
    try:
        with translated(path):
            frame = frame_of(session, bridge(session).changes(session._jsparkSession, path, after, upto, coarse, partitions))
    except SourceUnavailable as error:
        # Deletion vectors are read here, all other files by the jobs.
        if lost := lost_file(error.__cause__ or error):
            raise lost from error
        raise
    # A row that came in one commit and went in a later one must not reach an expression that may fail on it.
    several = len(summaries) > 1
    rewrites = any(each.removes_rows and (several or coarse or each.operation not in _EXACT) for each in summaries)
    appends_only = not any(each.removes_rows for each in summaries)
    updates = any(each.removes_rows and each.operation != "DELETE" for each in summaries)
    return ChangeSet(frame, "diff" if coarse else "cdf", appends_only, rewrites, updates)
