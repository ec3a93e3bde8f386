"""Events for queues: what is told of histories and alerts, once, whoever tells it. The tables are played."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import count
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from streamtable.delta.commit import RowChange, Transaction
from streamtable.errors import ConcurrentRefresh, SourceUnavailable
from streamtable.language.queue.ast import OfSchedulers
from streamtable.observe import events
from streamtable.observe.alerts import Alert, AlertKind
from streamtable.observe.events import Events
from streamtable.refresh.choose import Action
from streamtable.refresh.history import Line
from streamtable.refresh.records import Record

MADE = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)


@dataclass
class Played:
    """One stream table with its history, and one queue; `between` runs when a teller has read the queue's last number."""

    lines: list[Line] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    version = 0
    broken: Exception | None = None

    def refreshed(self, action: Action, minutes: float = 1, **more: Any) -> None:
        at = MADE + timedelta(minutes=minutes)
        self.lines.insert(0, Line("shop.a", len(self.lines) + 1, at, Record(action, "why", 5, **more)))

    def commit(self, _: object, path: str, read_version: int, by: Transaction, rows: RowChange) -> None:
        if self.broken:
            raise self.broken
        if read_version != self.version:
            raise ConcurrentRefresh("another commit came first")
        self.rows += cast(Any, rows.add).rows
        self.numbers[by.application] = by.number
        self.version += 1

    def told(self) -> list[tuple[Any, ...]]:
        found, self.rows = self.rows, []
        return [row[:3] for row in found]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    played = Played()
    queue = SimpleNamespace(id="q", path="/q", statement=SimpleNamespace(events=OfSchedulers()))
    other = SimpleNamespace(id="o", path="/o", statement=SimpleNamespace(events=None))

    def entry() -> Any:
        return SimpleNamespace(state=SimpleNamespace(table_id="id", version=len(played.lines)))

    monkeypatch.setattr(events, "Index", lambda _: SimpleNamespace(poll=lambda _: {"/a": entry()}))
    monkeypatch.setattr(events, "queues", lambda _: [queue, other])
    monkeypatch.setattr(events, "history", lambda *_: iter(played.lines))
    monkeypatch.setattr(events, "commits", lambda *_, **__: [SimpleNamespace(at=MADE)])
    monkeypatch.setattr(events, "state", lambda *_: SimpleNamespace(version=played.version))
    monkeypatch.setattr(events, "transaction", lambda _, path, application: played.numbers.get(application))
    monkeypatch.setattr(events, "commit", played.commit)
    monkeypatch.setattr(events, "new", lambda _: SimpleNamespace(createDataFrame=frame))
    monkeypatch.setattr("streamtable.refresh.records.PATIENCE.wait", lambda *_: 0)
    yield played


def frame(rows: list[tuple[Any, ...]], columns: str) -> Any:
    assert all(len(row) == len(columns.split(",")) for row in rows)
    return SimpleNamespace(rows=rows, sparkSession=None)


def teller() -> Events:
    return Events(cast("SparkSession", None))


def test_lines_since_the_queue_was_made_are_told_once_the_first_one_first(played: Played) -> None:
    played.refreshed(Action.FULL, minutes=-1)
    played.refreshed(Action.DIFFERENTIAL, rows_inserted=3, request="r1")
    played.refreshed(Action.FAILED)
    one, other = teller(), teller()
    one.poll()
    assert played.rows[0][6:] == (3, 0, 5, "r1")
    assert played.told() == [("refresh_completed", "shop.a", "DIFFERENTIAL"), ("refresh_failed", "shop.a", "FAILED")]
    for each in (one, other, teller()):
        each.poll()
    assert played.told() == []
    played.refreshed(Action.SKIPPED)
    for each in (other, one):
        each.poll()
    assert played.told() == [("refresh_skipped", "shop.a", "SKIPPED")]


def test_of_two_tellers_at_once_the_second_finds_it_told(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    played.refreshed(Action.FULL)
    seen = iter([None])

    def slow(_: object, path: str, application: str) -> int | None:
        for number in seen:
            teller().poll()
            return number
        return played.numbers.get(application)

    monkeypatch.setattr(events, "transaction", slow)
    teller().poll()
    assert played.told() == [("refresh_completed", "shop.a", "FULL")]


def test_what_cannot_be_told_now_is_told_later(played: Played, caplog: pytest.LogCaptureFixture) -> None:
    played.refreshed(Action.FULL)
    played.broken = SourceUnavailable("the queue is gone")
    one = teller()
    with caplog.at_level(logging.WARNING, "streamtable.events"):
        one.poll()
    assert (played.told(), len(caplog.records)) == ([], 1)
    played.broken = None
    one.poll()
    assert played.told() == [("refresh_completed", "shop.a", "FULL")]


def test_an_alert_with_a_time_of_its_own_is_told_once_by_all_tellers(played: Played) -> None:
    suspended = Alert("shop.a", AlertKind.SUSPENDED, MADE, "after failures")
    for each in (teller(), teller()):
        each.alerts([suspended])
    assert played.told() == [("alert", "shop.a", "SUSPENDED")]
    teller().alerts([Alert("shop.a", AlertKind.SUSPENDED, MADE + timedelta(minutes=1), "again")])
    teller().alerts([Alert("shop.b", AlertKind.EXPECTATION, None, "rows fail")])
    assert played.told() == [("alert", "shop.a", "SUSPENDED"), ("alert", "shop.b", "EXPECTATION")]


def test_a_queue_that_is_found_later_is_told_the_alerts_that_hold_then(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = count()
    monkeypatch.setattr("streamtable.engine.clock.now", lambda: MADE + timedelta(seconds=next(seconds)))
    one, holds = (
        teller(),
        [Alert("shop.a", AlertKind.SUSPENDED, MADE, "after failures"), Alert("shop.b", AlertKind.EXPECTATION, None, "!")],
    )
    one._listed = inf  # it looks for queues another time
    one.alerts(holds)
    assert played.told() == []
    one._listed = -inf
    for now in (holds, holds, []):
        one.alerts(now)
    assert played.told() == [("alert", "shop.a", "SUSPENDED"), ("alert", "shop.b", "EXPECTATION")]
    one.alerts(holds[1:])
    assert played.told() == [("alert", "shop.b", "EXPECTATION")], "it was over, and is back"


def test_an_alert_that_cannot_be_told_now_is_told_at_the_next_look(played: Played) -> None:
    one, holds = teller(), [Alert("shop.a", AlertKind.SUSPENDED, MADE, "after failures")]
    played.broken = SourceUnavailable("the disk is full")
    one.alerts(holds)
    played.broken = None
    one.alerts(holds)
    assert played.told() == [("alert", "shop.a", "SUSPENDED")]


def test_two_sources_of_a_table_are_two_alerts_whichever_came_first(played: Played) -> None:
    lost = [
        Alert("shop.a", AlertKind.HISTORY_LOST, at, source, source)
        for source, at in (("x", MADE), ("y", MADE - timedelta(hours=1)))
    ]
    teller().alerts(lost)
    assert len(played.told()) == 2
