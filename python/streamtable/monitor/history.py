"""The history of refreshes, as the commits of each stream table tell it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry
from streamtable.delta.tables import commits
from streamtable.refresh.records import Record

__all__ = ["history_rows"]


def history_rows(spark: SparkSession, tables: Iterable[Entry], limit: int | None) -> list[tuple[Any, ...]]:
    """Return (name, version, at, action, reason, duration_ms), the latest first."""
    rows = [row for entry in tables for row in _rows(spark, entry)]
    rows.sort(key=lambda row: (row[2], row[1]), reverse=True)
    return rows if limit is None else rows[:limit]


def _rows(spark: SparkSession, entry: Entry) -> Iterator[tuple[Any, ...]]:
    # The log is cleaned up after its retention; the history reaches as far back as the log does.
    for each in commits(spark, entry.path, -1, entry.state.version, complete=False):
        if record := Record.of(each.user_metadata):
            at = datetime.fromtimestamp(each.timestamp / 1000, tz=timezone.utc)
            yield entry.definition.name, each.version, at, record.action.value, record.reason, record.duration_ms
