"""The load of a refresh, counted in rows from the logs alone, without a Spark job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.delta.summaries import CommitSummary
from streamtable.delta.tables import Size, Version, size
from streamtable.engine.load import Load

__all__ = ["load_of"]

_COUNTED: Mapping[str, Mapping[str, int]] = {
    "DELETE": {"numDeletedRows": 1},
    "UPDATE": {"numUpdatedRows": 2},
    "MERGE": {"numTargetRowsInserted": 1, "numTargetRowsDeleted": 1, "numTargetRowsUpdated": 2},
}
"""Delta's counts by operation, and the rows of a change set per counted row: an updated row goes and comes."""


@dataclass(frozen=True)
class _Part:
    """The load of one source: `changed` rows, by which two versions differ, in files with `touched` rows."""

    name: str
    changed: int
    touched: int
    rows: int
    bytes: int

    @property
    def advice(self) -> str:
        """Advise a change data feed if most rows in the rewritten files stayed the same; else return an empty text."""
        if self.touched <= 2 * self.changed:
            return ""
        feed = f"ALTER TABLE {self.name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        return f"Most rows in the files that changed in {self.name} stayed as they were; its change data feed would help: {feed}"


def load_of(
    session: SparkSession,
    target: Mapping[str, Version],
    since: Mapping[str, Sequence[CommitSummary]],
    names: Mapping[str, str],
) -> Load | None:
    """Count the rows that the commits `since` the frontier changed, and all rows of the sources, or estimate them.

    `names` are the names of the sources, by path. None if a log does not tell the counts.
    """
    parts: list[_Part] = []
    for path, version in target.items():
        if path == CLOCK.path:
            continue
        whole = size(session, path, version.number)
        if whole is None:
            return None
        pairs = [_changed(commit, whole) for commit in since.get(path, ())]
        changed, touched = (sum(counts) for counts in zip(*pairs, strict=True)) if pairs else (0, 0)
        parts.append(_Part(names.get(path, path), changed, touched, whole.rows, whole.bytes))
    most = max(parts, key=lambda part: part.changed, default=None)
    return Load(
        sum(part.changed for part in parts),
        sum(part.rows for part in parts),
        sum(part.bytes for part in parts),
        any(commit.removes_rows for commits in since.values() for commit in commits),
        most=most.name if most and most.changed else "",
        advice=max(parts, key=lambda part: part.touched, default=most).advice if most else "",
    )


def _changed(commit: CommitSummary, whole: Size) -> tuple[int, int]:
    """Count the rows that differ after a commit, and the rows of the files that it wrote or removed.

    In files that were rewritten for a few rows, most rows are equal before and after, and cancel out. Then the feed is smaller,
    or the writer has counted the changed rows.
    """

    def counted(bytes_: int) -> int:
        return bytes_ * whole.rows // whole.bytes if whole.bytes else 0

    touched = commit.rows + counted(commit.uncounted_bytes)
    if commit.feed_bytes:
        touched = min(touched, counted(commit.feed_bytes))
    return min(touched, _told(commit, touched)), touched


def _told(commit: CommitSummary, otherwise: int) -> int:
    """Return the number of changed rows by the writer's own counts, or `otherwise` if a count is missing."""
    weights = _COUNTED.get(commit.operation, {})
    counts = [int(commit.metrics[name]) * weight for name, weight in weights.items() if commit.metrics.get(name, "").isdigit()]
    return sum(counts) if weights and len(counts) == len(weights) else otherwise
