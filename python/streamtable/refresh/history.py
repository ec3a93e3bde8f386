"""The history of refreshes, read from the commits of each stream table."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from threading import Lock

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry
from streamtable.delta.summaries import commits
from streamtable.delta.tables import TableState
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


_Key = tuple[str, str, int]


class _Kept:
    """The full chunks and the last one of each table, by path, table id and first version; a copy of a table has its id.

    Commits do not change, and alerts, metrics and the console ask for them often, each on a thread of its own.
    """

    def __init__(self) -> None:
        self._chunks: OrderedDict[_Key, _Chunk] = OrderedDict()
        self._lines = 0
        self._lock = Lock()

    def get(self, key: _Key) -> _Chunk | None:
        return self._chunks.get(key)

    def keep(self, key: _Key, chunk: _Chunk) -> None:
        """Keep a chunk instead of those that were kept first. One without lines counts as one line."""
        with self._lock:
            if before := self._chunks.pop(key, None):
                self._lines -= len(before.told) + 1
            self._chunks[key] = chunk
            self._lines += len(chunk.told) + 1
            while self._lines > KEPT_LINES:
                _, gone = self._chunks.popitem(last=False)
                self._lines -= len(gone.told) + 1


_kept = _Kept()


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
    key, end = (state.path, state.table_id, start), min(start + CHUNK - 1, state.version)
    before = _kept.get(key)
    if before is None or before.upto > end:  # the table may have gone back to an earlier version
        before = _Chunk(start - 1, 0, ())
    if before.upto == end:
        return before.told
    found = commits(spark, state.path, before.upto, end, complete=False)
    told = tuple((each.version, each.at, record) for each in reversed(found) if (record := Record.of(each.user_metadata)))
    chunk = _Chunk(end, before.commits + len(found), told + before.told)
    if chunk.commits and (end == state.version or chunk.commits == CHUNK):
        _kept.keep(key, chunk)
    return chunk.told if chunk.commits else None
