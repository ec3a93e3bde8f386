"""Tables that read each other in a cycle, as two ALTERs at once can leave them: the others go on."""

from __future__ import annotations

import networkx as nx
import pytest

from streamtable.catalog.graph import without_cycles
from streamtable.schedule.graph import Graph


@pytest.mark.parametrize("cycle", [["a"], ["a", "b"], ["a", "b", "c"]])
def test_a_cycle_stops_no_look_at_the_other_tables(cycle: list[str]) -> None:
    made_of = {each: [cycle[n - 1]] for n, each in enumerate(cycle)} | {"above": [cycle[0], "/s"], "other": ["/s"]}
    graph = Graph(made_of)
    assert set(graph.order) == {*made_of, "/s"}
    assert graph.order.index("/s") < graph.order.index("above")
    assert [each for each in cycle if graph.sources[each]] == []
    assert set(graph.sources["above"]) == {cycle[0], "/s"}


def test_a_graph_without_a_cycle_stays() -> None:
    edges = [("/s", "a"), ("a", "b"), ("/s", "b")]
    assert list(without_cycles(nx.DiGraph(edges)).edges) == list(nx.DiGraph(edges).edges)
