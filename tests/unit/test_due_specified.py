"""The plan of a look equals its specification over random tables, and a thousand tables cost no more each than ten do."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from tests.unit.due_as_specified import Specified, branches, edges

from streamtable.catalog.requests import Request
from streamtable.language.stream_table.schedule import (
    Calculated,
    Every,
    Immediate,
    Manual,
    OnUpdate,
    Schedule,
    cron,
    duration,
)
from streamtable.schedule.due import ScheduledTable, graph_of, plan

NOW = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
CALCULATED = Calculated()
SCHEDULES: list[Schedule] = [
    *(duration(text) for text in ("5s", "1m", "1h")),
    cron("*/5 * * * *", "UTC"),
    cron("0 6 * * *"),
    OnUpdate(),
    OnUpdate(Every(60, "1m")),
    Immediate(),
    Manual(),
    *[CALCULATED] * 4,
]
PAST = st.integers(0, 4000).map(lambda seconds: NOW - timedelta(seconds=seconds))


@st.composite
def catalogs(draw: st.DrawFn) -> dict[str, ScheduledTable]:
    """Draw up to ten stream tables over two base tables; a table reads only those drawn before it."""
    made: dict[str, ScheduledTable] = {}
    for number in range(draw(st.integers(1, 10))):
        sources = draw(st.lists(st.sampled_from(["x", "y", *made]), min_size=1, max_size=3, unique=True))
        path, behind = f"t{number}", draw(st.booleans())
        made[path] = ScheduledTable(
            path,
            f"shop.{path}",
            draw(st.sampled_from(SCHEDULES)),
            tuple(sources),
            draw(st.none() | PAST),
            suspended=draw(st.integers(0, 9)) == 0,
            behind=behind,
            zone=draw(st.sampled_from([timezone.utc, ZoneInfo("Asia/Tokyo")])),
            resumed=draw(st.none() | PAST) if draw(st.booleans()) else None,
            moved=behind and draw(st.booleans()),
            request=Request(path, draw(PAST)) if draw(st.integers(0, 9)) == 0 else None,
            pause=timedelta(seconds=draw(st.sampled_from([0, 0, 90]))),
        )
    order = draw(st.permutations(list(made)))  # the order of the catalog is by name, not by who reads whom
    return {path: made[path] for path in order}


@given(catalogs(), st.dictionaries(st.sampled_from([f"t{n}" for n in range(12)]), PAST, max_size=3))
def test_the_plan_is_the_specified_one(tables: dict[str, ScheduledTable], busy: dict[str, datetime]) -> None:
    expected = Specified(tables).plan(NOW, busy)
    for kind in ("work", "current", "blocked", "watched", "waiting"):
        event(f"{kind}: {bool(getattr(expected, kind))}")
    graph = graph_of(tables.values())
    assert plan(tables, NOW, busy) == plan(tables, NOW, busy, graph) == plan(tables, NOW, busy, graph) == expected


@given(catalogs())
def test_the_branches_are_those_below_the_forks(tables: dict[str, ScheduledTable]) -> None:
    graph, specified = graph_of(tables.values()), edges(tables)
    assert {path: graph.branches(path) for path in graph.order} == {path: branches(specified, path) for path in specified}


def test_a_look_uses_the_graph_of_the_look_before_while_nobody_reads_another_table() -> None:
    tables = [ScheduledTable("a", "a", duration("1m"), ("x",)), ScheduledTable("m", "m", Manual(), ("x",))]
    graph = graph_of(tables)
    assert graph_of([replace(each, since=NOW, behind=False) for each in tables], graph) is graph
    asked = replace(tables[1], request=Request("now", NOW))
    for others in ([*tables, ScheduledTable("b", "b", Manual(), ())], tables[:1], [tables[0], asked]):
        assert graph_of(others, graph).order != () and graph_of(others, graph) is not graph
    assert graph_of([tables[0], asked], graph).sources["m"] == ("x",)


def made(number: int, schedule: Schedule, sources: Callable[[int], str]) -> dict[str, ScheduledTable]:
    return {f"t{n}": ScheduledTable(f"t{n}", f"t{n}", schedule, tuple(sources(n).split()), NOW) for n in range(number)}


def chain(number: int) -> Mapping[str, ScheduledTable]:
    return made(number, duration("1m"), lambda n: f"t{n - 1}" if n else "x")


def asked_by_the_last(number: int) -> Mapping[str, ScheduledTable]:
    last = f"t{number - 1}"
    tables = made(number, CALCULATED, lambda n: f"t{n - 1}" if n else "x")
    return tables | {last: replace(tables[last], schedule=duration("1m"))}


def diamonds(number: int) -> Mapping[str, ScheduledTable]:
    """Return a row of diamonds: two tables read the last one, and the next one reads both."""
    return made(number, duration("1m"), lambda n: f"t{n - 1} t{n - 2}" if n % 3 == 2 else f"t{n - n % 3 - 1}" if n > 1 else "x")


def fan(number: int) -> Mapping[str, ScheduledTable]:
    """Return a table that reads all others."""
    return made(number, duration("1m"), lambda n: " ".join(f"t{each}" for each in range(n)) if n == number - 1 else "x")


@pytest.mark.parametrize("shape", [chain, asked_by_the_last, diamonds, fan])
def test_a_look_over_many_tables_takes_no_seconds(shape: Callable[[int], Mapping[str, ScheduledTable]]) -> None:
    """A thousand tables in a chain took seven seconds of each look, in a row of diamonds eleven; two hundred CALCULATED ones fourteen."""
    small = shape(9)
    assert plan(small, NOW + timedelta(hours=1)) == Specified(small).plan(NOW + timedelta(hours=1), {})
    tables, began = shape(1000), time.process_time()
    found = plan(tables, NOW + timedelta(hours=1))
    assert len(found.work) == 1000
    assert time.process_time() - began < 1, "it takes some hundredths of a second"
