"""When contents count as stale, and when that is cause for alarm; each alert is told once."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace

import pytest

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry
from streamtable.delta import commit_ids
from streamtable.delta.tables import Retention, TableState, Version
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.schedule import Calculated, Every, Manual, OnUpdate, Schedule
from streamtable.observe import freshness as fresh
from streamtable.observe import health as sick
from streamtable.observe import watch
from streamtable.observe.alerts import Alert, AlertKind
from streamtable.observe.freshness import Freshness, promised, with_read
from streamtable.refresh.frontier import Frontier, Vector
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


def test_the_logs_of_a_few_sources_are_asked_once_for_all_their_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of a thousand tables over twenty sources a look asked the same, several times."""
    latest = {f"/s{n}": Version("id", 9) for n in range(3)}
    asked = list[tuple[str, int, int]]()

    def commits(_: object, path: str, after: int, upto: int, complete: bool = True) -> list[SimpleNamespace]:
        asked.append((path, after, upto))
        facts: dict[str, object] = {"layouts": (), "removed_layouts": (), "partitioned_by": None}
        each = [minutes(n - upto) for n in range(after + 1, upto + 1)]
        return [SimpleNamespace(data_change=True, removes_files=False, at=at, **facts) for at in each]

    def reads_feed(_: object, path: str, pending: object) -> bool:
        asked.append((path, 0, 0))
        return True

    def reader(number: int) -> Entry:
        read = {"/s0": Version("id", 9), "/s1": Version("id", 7 + number % 2), "/s2": Version("another" if number % 5 else "id", 9)}
        frontier = Frontier(read, {}, base=4, number=2, fingerprint="0123456789abcdef", action="FULL", exact=True, at=minutes(-60))
        statement = parse(f"CREATE STREAM TABLE shop.t{number} SCHEDULE '1h' AS SELECT 1 AS x")
        assert isinstance(statement, CreateStreamTable)
        definition = Definition(statement, "id", ("c",), {}, {path: path[1:] for path in latest})
        state = TableState(f"/t{number}", "id", 5, {}, "", (), frontier.to_json())
        return Entry(definition, state, ("c", "shop", f"t{number}"))

    retention = Retention(timedelta(days=30), timedelta(days=7))
    for module in (fresh, commit_ids):
        monkeypatch.setattr(module, "commits", commits)
    monkeypatch.setattr(sick, "reads_feed", reads_feed)
    monkeypatch.setattr(sick, "retention", lambda *_: retention)
    monkeypatch.setattr(Vector, "read", lambda _, paths: Vector(latest, NOW))
    readers = [reader(number) for number in range(100)]

    ages = fresh.freshness(SimpleNamespace(conf={}), readers)  # type: ignore[arg-type]
    assert sorted(asked) == [("/s1", 7, 9), ("/s1", 8, 9)]
    assert [ages[f"/t{number}"].data_timestamp for number in (0, 5, 1)] == [minutes(-1), minutes(0), minutes(-60)]
    asked.clear()
    found = sick.source_health(SimpleNamespace(), readers)  # type: ignore[arg-type]
    assert sorted(asked) == [("/s0", 0, 0), ("/s1", 0, 0), ("/s1", 0, 0), ("/s1", 7, 9), ("/s1", 8, 9), ("/s2", 0, 0)]
    assert [(each.source, each.state.value, each.waiting) for each in found[:6]] == [
        *(("s0", "OK", 0), ("s1", "OK", 2), ("s2", "OK", 0)),
        *(("s0", "OK", 0), ("s1", "OK", 1), ("s2", "RECREATED", 0)),
    ]
