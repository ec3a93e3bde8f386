"""Tables that read each other in a cycle, as two ALTERs at once can leave them: the others go on."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pytest

from streamtable.catalog import graph as graphs
from streamtable.catalog.graph import refuse_cycle, without_cycles
from streamtable.errors import DependencyCycle
from streamtable.language.parse import parse_schedule
from streamtable.observe import freshness
from streamtable.schedule.due import ScheduledTable
from streamtable.schedule.graph import Graph

MADE = datetime(2026, 11, 29, tzinfo=timezone.utc)
SPARK: Any = None


@pytest.mark.parametrize("cycle", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_a_cycle_stops_no_look_at_the_other_tables(cycle: list[str]) -> None:
    made_of = {each: [cycle[n - 1]] for n, each in enumerate(cycle)} | {"above": [cycle[0], "/s"], "other": ["/s"]}
    graph = Graph(made_of)
    assert set(graph.order) == {*made_of, "/s"}
    assert graph.order.index("/s") < graph.order.index("above")
    assert [each for each in cycle if graph.sources[each]] == []
    assert set(graph.sources["above"]) == {cycle[0], "/s"}


def test_the_age_of_other_tables_is_told_where_some_read_each_other() -> None:
    hourly = parse_schedule("1h")
    reads = {"a": "b", "b": "a", "other": "/s"}
    tables = {path: ScheduledTable(path, path, hourly, (source,), since=MADE) for path, source in reads.items()}
    found = freshness.with_read(tables)
    assert found.keys() == tables.keys() and found["other"][0] == MADE


def test_a_cycle_that_is_stored_hides_no_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(path: str, source: str) -> Any:
        return SimpleNamespace(path=path, definition=SimpleNamespace(name=path, sources={source: source}))

    st = entry("st", "above")
    stored = [st, entry("above", "st"), entry("above2", "above")]
    monkeypatch.setattr(graphs, "entries", lambda _: stored)
    for path in ("st", "above", "above2"):
        with pytest.raises(DependencyCycle, match="would read itself"):
            refuse_cycle(SPARK, st, [path])
    refuse_cycle(SPARK, st, ["sales"])


def test_a_graph_without_a_cycle_stays() -> None:
    edges = [("/s", "a"), ("a", "b"), ("/s", "b")]
    assert list(without_cycles(nx.DiGraph(edges)).edges) == list(nx.DiGraph(edges).edges)
