"""The history of refreshes, as the commits of each stream table tell it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry
from streamtable.delta.tables import commits
from streamtable.refresh.records import Record

__all__ = ["Line", "history"]

CHUNK = 100
"""So many commits are read at once: who asks for the latest few does not wait for the whole log."""


@dataclass(frozen=True)
class Line:
    """One line of the history: what happened to a table with its version `version`."""

    name: str
    version: int
    at: datetime
    record: Record

    @property
    def started(self) -> datetime:
        return self.at - timedelta(milliseconds=self.record.duration_ms)


def history(spark: SparkSession, tables: Iterable[Entry]) -> Iterator[Line]:
    """Yield the history of the tables, the latest line first."""
    return heapq.merge(*(_lines(spark, entry) for entry in tables), key=lambda line: (line.at, line.version), reverse=True)


def _lines(spark: SparkSession, entry: Entry) -> Iterator[Line]:
    # The log is cleaned up after its retention; the history reaches as far back as the log does.
    for upto in range(entry.state.version, -1, -CHUNK):
        found = commits(spark, entry.path, max(upto - CHUNK, -1), upto, complete=False)
        for each in reversed(found):
            if record := Record.of(each.user_metadata):
                yield Line(entry.definition.name, each.version, each.at, record)
        if not found:
            return
