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

KEPT_LINES = 100_000

Told = tuple[int, datetime, Record]


@dataclass(frozen=True)
class _Chunk:
    """The lines of the commits of a chunk up to a version, the latest first; `commits` of them are in the log."""

    upto: int
    commits: int
    told: tuple[Told, ...]


_kept: OrderedDict[tuple[str, int], _Chunk] = OrderedDict()
"""The full chunks and the last one of each table, by table id and first version. Commits do not change, and alerts, metrics and
the console ask for them often."""


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
    key, end = (state.table_id, start), min(start + CHUNK - 1, state.version)
    before = _kept.get(key)
    if before is None or before.upto > end:  # the table may have gone back to an earlier version
        before = _Chunk(start - 1, 0, ())
    if before.upto == end:
        return before.told
    found = commits(spark, state.path, before.upto, end, complete=False)
    told = tuple((each.version, each.at, record) for each in reversed(found) if (record := Record.of(each.user_metadata)))
    chunk = _Chunk(end, before.commits + len(found), told + before.told)
    if chunk.commits and (end == state.version or chunk.commits == CHUNK):
        _keep(key, chunk)
    return chunk.told if chunk.commits else None


def _keep(key: tuple[str, int], chunk: _Chunk) -> None:
    _kept[key] = chunk
    _kept.move_to_end(key)
    while sum(len(each.told) for each in list(_kept.values())) > KEPT_LINES:
        _kept.popitem(last=False)
