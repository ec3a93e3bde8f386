"""The history of refreshes, read from the commits of each stream table."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry
from streamtable.delta.tables import TableState, commits
from streamtable.refresh.choose import Action
from streamtable.refresh.records import Record

__all__ = ["Line", "errors_in_a_row", "history"]

CHUNK = 100
"""The number of commits that are read at once, so that the latest few lines do not need the whole log."""

KEPT_CHUNKS = 1000

Told = tuple[int, datetime, Record]

_kept: OrderedDict[tuple[str, int], tuple[Told, ...]] = OrderedDict()
"""The lines of full chunks, by table id and first version. Commits do not change, and metrics ask for them often."""


@dataclass(frozen=True)
class Line:
    """One line of the history: the event that made the table's version `version`."""

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


def errors_in_a_row(entry: Entry, lines: Iterable[Line]) -> int:
    """Count the failures since the last success or RESUME; `lines` are the history of the table."""
    return sum(1 for _ in takewhile(lambda line: line.record.action is Action.FAILED, _tried(entry, lines)))


def _tried(entry: Entry, lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the attempts since RESUME, the latest first."""
    resumed = entry.definition.resumed.version if entry.definition.resumed else -1
    since = takewhile(lambda line: line.version > resumed, lines)
    return (line for line in since if line.record.action is not Action.SKIPPED)


def _lines(spark: SparkSession, entry: Entry) -> Iterator[Line]:
    # Delta cleans the log up after its retention; the history reaches back as far as the log.
    for start in range(entry.state.version // CHUNK * CHUNK, -1, -CHUNK):
        told = _chunk(spark, entry.state, start)
        if told is None:
            return
        yield from (Line(entry.definition.name, *each) for each in told)


def _chunk(spark: SparkSession, state: TableState, start: int) -> tuple[Told, ...] | None:
    """Return the lines of the commits from `start` on, the latest first; None when the log has none of them."""
    if (state.table_id, start) in _kept:
        return _kept[state.table_id, start]
    found = commits(spark, state.path, start - 1, min(start + CHUNK - 1, state.version), complete=False)
    told = tuple((each.version, each.at, record) for each in reversed(found) if (record := Record.of(each.user_metadata)))
    if len(found) == CHUNK:
        _kept[state.table_id, start] = told
        while len(_kept) > KEPT_CHUNKS:
            _kept.popitem(last=False)
    return told if found else None
