"""When contents count as stale, and when that is cause for alarm; each alert is told once."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from streamtable.language.stream_table.schedule import Calculated, Every, Manual, OnUpdate, Schedule
from streamtable.observe import watch
from streamtable.observe.alerts import Alert, AlertKind
from streamtable.observe.freshness import Freshness, promised, with_read
from streamtable.schedule.due import NEVER, ONCE, ScheduledTable

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def minutes(number: float) -> datetime:
    return NOW + timedelta(minutes=number)


@pytest.mark.parametrize(
    ("since", "deadline", "stale", "overdue"),
    [
        (NOW, minutes(5), False, False),
        (minutes(-5), minutes(0), False, False),
        (minutes(-6), minutes(-1), True, False),
        (minutes(-11), minutes(-6), True, True),
        (minutes(-11), None, None, False),
        (None, minutes(-1), True, True),
        (None, None, True, False),
    ],
    ids=["current", "due now", "late", "twice as old", "no schedule", "never refreshed", "never asked for"],
)
def test_stale_and_overdue(since: datetime | None, deadline: datetime | None, stale: bool | None, overdue: bool) -> None:
    found = Freshness(since, deadline, NOW)
    assert (found.stale, found.overdue) == (stale, overdue)
    assert found.staleness == (NOW - since if since else None)


MINUTE, HOUR = Every(60, "1m"), Every(3600, "1h")


@pytest.mark.parametrize(
    ("below", "since", "reader", "found"),
    [
        (MINUTE, minutes(-30), MINUTE, (minutes(-30), minutes(-29))),
        (HOUR, minutes(-30), MINUTE, (minutes(-30), minutes(1))),
        (HOUR, minutes(-70), MINUTE, (minutes(-70), minutes(-10))),
        (MINUTE, minutes(-30), HOUR, (minutes(-30), minutes(30))),
        (Calculated(), minutes(-30), MINUTE, (minutes(-30), minutes(-29))),
        (Manual(), minutes(-30), MINUTE, (NOW, minutes(1))),
        (MINUTE, minutes(-30), Manual(), (minutes(-30), NEVER)),
        (MINUTE, None, MINUTE, (None, ONCE)),
    ],
    ids=[
        "late with it",
        "its hour",
        "its hour is over",
        "not late yet",
        "asked by it",
        "by hand",
        "reads by hand",
        "never refreshed",
    ],
)
def test_what_is_read_makes_its_readers_as_old_at_any_depth(
    below: Schedule, since: datetime | None, reader: Schedule, found: tuple[datetime | None, datetime]
) -> None:
    tables = [
        ScheduledTable("c", "c", reader, ("b", "base"), NOW),
        ScheduledTable("b", "b", Calculated(), ("a",), NOW),
        ScheduledTable("a", "a", below, ("base",), since),
    ]
    if isinstance(below, Manual):
        tables[1] = ScheduledTable("b", "b", Manual(), ("a",), NOW)
    assert with_read({each.path: each for each in tables})["c"] == found


@pytest.mark.parametrize("at_most", [None, Every(20, "20s")])
def test_a_table_on_update_is_late_when_a_source_was_ahead_for_its_debounce_and_a_poll(at_most: Every | None) -> None:
    allowed = timedelta(seconds=(at_most.seconds if at_most else 1) + 5)
    for since in (NOW, NOW - timedelta(seconds=60)):  # up to when its contents were the query's
        below = ScheduledTable("a", "a", Calculated(), ("base",), since, moved=since < NOW)
        above = ScheduledTable("b", "b", OnUpdate(at_most), ("a",), NOW)
        found = with_read({each.path: promised(each, 4.5) for each in (below, above)})
        assert found == {"a": (since, since + allowed), "b": (since, since + allowed)}


def test_an_alert_is_told_once_until_it_is_over(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    late = Alert("a", AlertKind.STALE, NOW, "late")
    looks = iter([[late], [late], [], [late], [Alert("a", AlertKind.STALE, minutes(9), "late again")]])
    monkeypatch.setattr(watch, "listed", lambda spark: [])
    monkeypatch.setattr(watch, "freshness", lambda spark, found: {})
    monkeypatch.setattr(watch, "health", lambda spark, found: [])
    monkeypatch.setattr(watch, "alerts", lambda spark, found, fresh, health, unreadable: next(looks))
    told: list[str] = []

    def tell(alert: Alert) -> None:
        told.append(alert.text)
        if len(told) == 1:
            raise ValueError("the callback is broken")

    holding = list[int]()
    watcher = watch.Watch(SimpleNamespace(conf={}), tell, holding=lambda now: holding.append(len(now)))  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING, "streamtable.alerts"):
        for _ in range(5):
            watcher.poll()
    assert told == ["late", "late", "late again"]
    assert holding == [1, 1, 0, 1, 1]
    assert [record.levelname for record in caplog.records].count("ERROR") == 1
