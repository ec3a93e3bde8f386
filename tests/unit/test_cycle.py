"""One cycle: one vector of versions for all, what is read first, and what is skipped when something went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.delta.tables import Version
from streamtable.language.stream_table.schedule import duration
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.records import Cause, Initiator
from streamtable.schedule.cycle import Cycle, Refreshed, Task, carry_out
from streamtable.schedule.due import ScheduledTable, graph_of

AT = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
DIAMOND = {"a": ["base"], "b": ["base"], "j": ["a", "b"], "top": ["j"]}


def version(number: int) -> Version:
    return Version("id", number)


def cycle_of(sources: Mapping[str, list[str]], *members: str) -> Cycle:
    """Return a cycle in which everything is at version 1 when it begins."""
    graph = graph_of(ScheduledTable(path, path, duration("1m"), tuple(read)) for path, read in sources.items())
    names = {path: f"shop.{path}" for path in members or sources}
    return Cycle(graph, names, Vector({path: version(1) for path in graph.order}, AT))


def as_asked(task: Task, number: int = 2) -> Refreshed:
    return Refreshed(version(number), task.vector.versions)


def read_by(task: Task) -> dict[str, int]:
    return {path: each.number for path, each in task.vector.versions.items()}


def test_what_is_read_comes_before_and_is_read_at_the_version_that_the_cycle_made() -> None:
    cycle = cycle_of(DIAMOND)
    assert cycle.ready() == ["a", "b"]
    a, b = cycle.start("a"), cycle.start("b")
    assert (read_by(a), read_by(b), a.vector.at) == ({"base": 1}, {"base": 1}, AT)
    assert (a.joins, b.joins) == (False, False)
    cycle.refreshed(b, as_asked(b, 5))
    assert cycle.ready() == []
    assert cycle.unfinished == {"a", "j", "top"}
    cycle.refreshed(a, as_asked(a, 4))
    assert cycle.ready() == ["j"]
    j = cycle.start("j")
    assert (read_by(j), j.joins) == ({"a": 4, "b": 5}, True)
    cycle.refreshed(j, as_asked(j))
    assert read_by(cycle.start("top")) == {"j": 2}


def test_what_is_not_in_the_cycle_is_read_as_the_vector_found_it() -> None:
    cycle = cycle_of(DIAMOND, "top")
    assert cycle.ready() == ["top"]
    assert read_by(cycle.start("top")) == {"j": 1}


def test_a_source_that_the_vector_did_not_find_is_left_to_the_refresh() -> None:
    graph = graph_of([ScheduledTable("a", "a", duration("1m"), ("base", "gone"))])
    task = Cycle(graph, {"a": "a"}, Vector({"base": version(1)}, AT)).start("a")
    assert read_by(task) == {"base": 1}


def test_the_readers_of_a_failed_table_are_skipped_and_the_others_go_on() -> None:
    cycle = cycle_of({**DIAMOND, "other": ["b"]})
    a, b = cycle.start("a"), cycle.start("b")
    assert cycle.failed(a) == ["j", "top"]
    cycle.refreshed(b, as_asked(b))
    assert cycle.ready() == ["other"]
    assert cycle.failed(cycle.start("other")) == []
    assert cycle.unfinished == set()


def test_a_reader_that_reads_a_failed_table_only_by_way_of_one_outside_the_cycle_is_refreshed() -> None:
    cycle = cycle_of({"a": ["base"], "x": ["a"], "y": ["x"]}, "a", "y")
    assert cycle.failed(cycle.start("a")) == []
    assert cycle.ready() == ["y"]


def test_what_two_ways_skip_is_told_once() -> None:
    cycle = cycle_of({**DIAMOND, "k": ["a", "b"], "both": ["j", "k"]})
    skipped = cycle.refreshed(cycle.start("a"), Refreshed(version(7), {"base": version(2)}))
    assert sorted(skipped) == ["both", "j", "k", "top"]
    assert cycle.unfinished == {"b"}


def test_branches_that_another_session_moved_are_not_joined() -> None:
    cycle = cycle_of({**DIAMOND, "chain": ["a"]})
    a, b = cycle.start("a"), cycle.start("b")
    assert cycle.refreshed(b, as_asked(b)) == []
    assert cycle.refreshed(a, Refreshed(version(7), {"base": version(2)})) == ["j", "top"]
    assert cycle.unfinished == {"chain"}
    assert cycle.ready() == ["chain"]
    assert read_by(cycle.start("chain")) == {"a": 7}


@pytest.mark.parametrize(("now", "skipped"), [(3, True), (4, True), (2, False)])
def test_a_tip_that_another_session_joined_anew_is_skipped(now: int, skipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the source itself went back, as by an older copy of its folder, no session was ahead: the table was skipped for ever."""
    standing = SimpleNamespace(state=SimpleNamespace(latest=version(9)))
    newer = Frontier({"base": version(3)}, {}, 8, 4, "plan", "DIFFERENTIAL", exact=True)
    monkeypatch.setattr("streamtable.schedule.cycle._standing", lambda *_: (standing, newer))
    monkeypatch.setattr("streamtable.schedule.cycle.refresh", lambda *_: "refreshed")
    monkeypatch.setattr(Vector, "read", lambda _, paths: Vector({path: version(now) for path in paths}, AT))
    task = Task("j", "shop.j", Vector({"base": version(2)}, AT), joins=True)
    spark: Any = None
    outcome, done = carry_out(spark, task, Cause(Initiator.SCHEDULER))
    assert (outcome, done.skipped) == ((None, True) if skipped else ("refreshed", False))
    assert (done.version, done.sources) == (version(9), newer.sources)
