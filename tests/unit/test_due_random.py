"""The scheduler's decisions over random graphs of tables: ordered, complete, never twice, and nobody starves."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

from streamtable.language.stream_table.schedule import Calculated, Every, Manual, OnUpdate, Schedule, cron, duration
from streamtable.schedule.due import NEVER, ScheduledTable, deadlines, graph_of, plan

NOW = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
SCHEDULES: list[Schedule] = [
    *(duration(text) for text in ("1s", "5s", "1m", "1h")),
    cron("*/5 * * * *", "UTC"),
    OnUpdate(),
    OnUpdate(Every(60, "1m")),
    Calculated(),
    Manual(),
]


@st.composite
def catalogs(draw: st.DrawFn) -> dict[str, ScheduledTable]:
    """Draw up to eight stream tables over two base tables; a table reads only those drawn before it."""
    made: dict[str, ScheduledTable] = {}
    for number in range(draw(st.integers(1, 8))):
        sources = draw(st.lists(st.sampled_from(["x", "y", *made]), min_size=1, max_size=3, unique=True))
        since = draw(st.none() | st.integers(0, 4000).map(lambda seconds: NOW - timedelta(seconds=seconds)))
        path = f"t{number}"
        suspended, behind = draw(st.integers(0, 9)) == 0, draw(st.booleans())
        schedule, moved = draw(st.sampled_from(SCHEDULES)), behind and draw(st.booleans())
        made[path] = ScheduledTable(path, path, schedule, tuple(sources), since, suspended, behind, moved=moved)
    return made


@given(catalogs(), st.sets(st.sampled_from([f"t{n}" for n in range(8)]), max_size=2))
def test_the_work_is_ordered_and_complete(tables: dict[str, ScheduledTable], busy: set[str]) -> None:
    found = plan(tables, NOW, dict.fromkeys(busy, NOW))
    work = [each.path for each in found.work]
    graph, deadline = graph_of(tables.values()), deadlines(tables, graph_of(tables.values()))
    waiting = graph.all_readers(busy & tables.keys())
    assert len(set(work)) == len(work)
    for position, path in enumerate(work):
        assert not set(work[position:]) & graph.all_sources([path]), "what is read comes before what reads it"
        assert graph.branches(path) <= {*work, *found.current} | waiting, "what a diamond joins is at one vector"
        assert graph.branches(path).isdisjoint(busy)
        assert not tables[path].suspended
        assert not isinstance(tables[path].schedule, Manual)
        assert path not in busy
    for path in {path for path in tables if deadline[path] <= NOW} - busy - {*work, *found.current, *found.blocked}:
        assert busy, "only what needs a busy table waits"
        assert not isinstance(tables[path].schedule, Manual)
    assert found.wake > NOW


@given(catalogs())
def test_nothing_is_due_twice(tables: dict[str, ScheduledTable]) -> None:
    found = plan(tables, NOW)
    handled = {*(each.path for each in found.work), *found.current, *found.blocked}
    after = {path: replace(table, since=NOW) if path in handled else table for path, table in tables.items()}
    again = plan(after, NOW)
    assert (again.work, again.current, again.blocked) == ((), (), {})


@settings(deadline=None, max_examples=60)  # sixty plans per example
@given(catalogs(), st.lists(st.integers(1, 40), min_size=8, max_size=8))
def test_nobody_starves(tables: dict[str, ScheduledTable], takes: list[int]) -> None:
    """One worker, refreshes that take longer than their periods, one cycle after the other: each table gets its turn."""
    tables = {path: replace(table, behind=True, suspended=False) for path, table in tables.items()}
    asked = deadlines(tables, graph_of(tables.values()))
    scheduled = {path for path, table in tables.items() if isinstance(table.schedule, Every) and asked[path] < NEVER}
    clock, refreshed = NOW, dict.fromkeys(scheduled, NOW)
    bound = timedelta(seconds=3600 + 2 * sum(takes))
    for _ in range(60):
        found = plan(tables, clock)
        if not found.work:
            clock = min(found.wake, clock + timedelta(hours=1))
            continue
        at = clock
        for work in found.work:
            tables[work.path] = replace(tables[work.path], since=at)
            refreshed[work.path] = at
            clock += timedelta(seconds=takes[int(work.path[1:])])
        assert all(clock - refreshed[path] <= bound for path in scheduled)
