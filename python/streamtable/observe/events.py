"""Events: what refreshes did and what alerts say, as rows of the queues that CREATE QUEUE ... FOR EVENTS made.

The commit that adds rows to a queue has the number of their last event: the version of the stream table, or the time of an alert.
So each event is told once, however many schedulers tell events.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import takewhile
from math import inf
from threading import Thread

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry
from streamtable.catalog.index import Index
from streamtable.delta.commit import RowChange, Transaction, commit
from streamtable.delta.summaries import commits
from streamtable.delta.tables import state, transaction
from streamtable.engine import clock
from streamtable.errors import clear_frames
from streamtable.language.queue.ast import OfSchedulers
from streamtable.observe.alerts import Alert
from streamtable.observe.results import Row
from streamtable.queue.definition import Queue, queues
from streamtable.refresh.choose import Action
from streamtable.refresh.history import Line, history
from streamtable.refresh.records import PATIENCE
from streamtable.schedule.poll import poll
from streamtable.sessions.internal import new
from streamtable.settings.session import EVENTS_POLL

__all__ = ["Events"]

log = logging.getLogger("streamtable.events")

_LIST_EVERY = 60.0
"""Seconds between two searches for queues, because listing a catalog takes long."""

_NAMES = {Action.FAILED: "refresh_failed", Action.SKIPPED: "refresh_skipped"}


class Events:
    """Tells the queues FOR EVENTS of the session's catalog what is in the histories of stream tables, and alerts."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._index = Index(spark)
        self._queues: list[Queue] = []
        self._listed = -inf
        self._told = dict[tuple[str, str], int]()
        self._holding = set[tuple[str, Alert]]()

    def start(self, stopped: Callable[[float], bool]) -> Thread:
        """Tell from now on; see `poll`."""
        return poll("events", self.poll, self._spark, EVENTS_POLL, stopped)

    def poll(self) -> None:
        """Tell each queue the lines that histories have since the queue was made. What cannot be told now is told later."""
        for queue in self._open():
            for entry in self._index.poll(_LIST_EVERY).values():
                key = queue.id, entry.state.table_id
                if self._told.get(key) != entry.state.version and self._tell(queue, partial(self._lines, entry)):
                    self._told[key] = entry.state.version

    def alerts(self, now: Iterable[Alert]) -> None:
        """Tell each queue the alerts that hold now, unless it has them. One without a time of its own is told by each scheduler."""
        holding = [(queue, alert) for queue in self._open() for alert in now]
        told = {(queue.id, alert) for queue, alert in holding if (queue.id, alert) in self._holding or self._alert(queue, alert)}
        self._holding = told  # what cannot be told now is told later

    def _alert(self, queue: Queue, alert: Alert) -> bool:
        at = alert.since or clock.now()
        application = " ".join(filter(None, ("streamtable alert", alert.kind.value, alert.name, alert.source)))
        row = ("alert", alert.name, alert.kind.value, alert.text, None, at, None, None, None, None)
        return self._tell(queue, partial(self._append, application, round(1000 * at.timestamp()), lambda _: [row]))

    def _open(self) -> Sequence[Queue]:
        if time.monotonic() >= self._listed + _LIST_EVERY:
            self._queues = [each for each in queues(self._spark) if isinstance(each.statement.events, OfSchedulers)]
            self._listed = time.monotonic()
        return self._queues

    def _tell(self, queue: Queue, tell: Callable[[Queue], None]) -> bool:
        """Tell whether it could be told. Another commit to the queue that comes first is no reason to fail."""
        try:
            PATIENCE(tell, queue)
        except Exception as error:  # the other queues are to be told as well
            log.warning("the queue %s misses events for now: %s", queue, error)
            clear_frames(error)
            return False
        return True

    def _lines(self, entry: Entry, queue: Queue) -> None:
        def since(version: int | None) -> list[Row]:
            if version is None:
                made = self._made(queue)
                lines = takewhile(lambda line: line.at >= made, history(self._spark, [entry]))
            else:
                lines = takewhile(lambda line: line.version > version, history(self._spark, [entry]))
            return [*map(_row, lines)][::-1]

        self._append(f"streamtable events {entry.state.table_id}", entry.state.version, since, queue)

    def _made(self, queue: Queue) -> datetime:
        """Return when a queue was made. Where its log does not tell, it is older than all that is not told."""
        first = commits(self._spark, queue.path, -1, 0, complete=False)
        return first[0].at if first else datetime.min.replace(tzinfo=timezone.utc)

    def _append(self, application: str, number: int, since: Callable[[int | None], list[Row]], queue: Queue) -> None:
        """Add the rows since the application's last number, in a commit with this number. Raises ConcurrentRefresh."""
        read = state(self._spark, queue.path)  # before the number: a commit that comes between the two conflicts
        before = transaction(self._spark, queue.path, application)
        if (before is not None and before >= number) or not (rows := since(before)):
            return
        frame = new(self._spark).createDataFrame(rows, OfSchedulers().text)
        commit(frame.sparkSession, queue.path, read.version, Transaction(application, number), RowChange(frame))


def _row(line: Line) -> Row:
    record = line.record
    told = (_NAMES.get(record.action, "refresh_completed"), line.name, record.action.value, record.reason, line.version, line.at)
    return (*told, record.rows_inserted, record.rows_deleted, record.duration_ms, record.request)
