"""What a refresh finds to do, counted in rows from the logs alone: no Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.delta.tables import CommitSummary, Size, Version, size
from streamtable.refresh.cost import Load

__all__ = ["load_of"]


def load_of(session: SparkSession, target: Mapping[str, Version], since: Mapping[str, Sequence[CommitSummary]]) -> Load | None:
    """Count the rows that the commits `since` the frontier changed, and all rows of the sources, which may be estimated.

    None where a log does not tell.
    """
    changed = rows = bytes_ = 0
    for path, version in target.items():
        if path == CLOCK.path:
            continue
        whole = size(session, path, version.number)
        if whole is None:
            return None
        changed += sum(_changed(commit, whole) for commit in since.get(path, ()))
        rows += whole.rows
        bytes_ += whole.bytes
    return Load(changed, rows, bytes_, any(commit.removes_rows for commits in since.values() for commit in commits))


def _changed(commit: CommitSummary, whole: Size) -> int:
    """Count by the files; where they were rewritten for the sake of a few rows, the feed is smaller, and it is what is read."""

    def counted(bytes_: int) -> int:
        return bytes_ * whole.rows // whole.bytes if whole.bytes else 0

    by_files = commit.rows + counted(commit.uncounted_bytes)
    return min(by_files, counted(commit.feed_bytes)) if commit.feed_bytes else by_files
