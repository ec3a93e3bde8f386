"""Which table reads which: a graph that does not change, so that what it was asked is remembered from look to look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from datetime import datetime
from heapq import heappop, heappush
from typing import final

import networkx as nx

from streamtable.catalog.graph import without_cycles

__all__ = ["Graph", "branches"]


@final
class Graph:
    """A graph of paths, with an edge from each source to its reader.

    It is made of the sources of each table. `order` has all paths, sources before readers; `sources` and `readers` have what each
    path reads, and what reads it. Tables that read each other in a cycle have no sources of it here.
    """

    def __init__(self, made_of: Mapping[str, Collection[str]]) -> None:
        self.made_of = made_of
        self._graph: nx.DiGraph[str] = nx.DiGraph()
        self._graph.add_nodes_from(made_of)
        self._graph.add_edges_from((source, path) for path, sources in made_of.items() for source in sources)
        without_cycles(self._graph)
        self.order = tuple(nx.topological_sort(self._graph))
        self.place = {path: place for place, path in enumerate(self.order)}
        self.sources = {path: tuple(self._graph.predecessors(path)) for path in self.order}
        self.readers = {path: tuple(self._graph.successors(path)) for path in self.order}
        self._branches = dict[str, frozenset[str]]()

    @classmethod
    def of(cls, graph: nx.DiGraph[str]) -> Graph:
        """Return the graph with the edges of another."""
        return cls({path: tuple(graph.predecessors(path)) for path in graph})

    def branches(self, path: str) -> frozenset[str]:
        """Return the tables that need one vector of versions when `path` is refreshed."""
        if (found := self._branches.get(path)) is None:
            found = self._branches[path] = branches(self, path)
        return found

    def all_sources(self, paths: Iterable[str]) -> set[str]:
        """Return what the paths read, at any depth. One of the paths is returned if another one reads it."""
        return _reached(paths, self.sources)

    def all_readers(self, paths: Iterable[str], within: Container[str] | None = None) -> set[str]:
        """Return what reads the paths, at any depth; with `within` through these tables alone."""
        return _reached(paths, self.readers, within)

    def by(self, urgency: Callable[[str], datetime]) -> Iterable[str]:
        """Yield all paths, sources before readers: of those that can be next the earliest, of equally early ones by name."""
        found: Iterable[str] = nx.lexicographical_topological_sort(self._graph, key=lambda path: (urgency(path), path))
        return found


def _reached(paths: Iterable[str], edges: Mapping[str, Collection[str]], within: Container[str] | None = None) -> set[str]:
    found, left = set[str](), [path for path in paths if path in edges]
    while left:
        more = [each for each in edges[left.pop()] if each not in found and (within is None or each in within)]
        found.update(more)
        left += more
    return found


def branches(graph: Graph, path: str) -> frozenset[str]:
    """Return the tables that need one vector of versions when `path` is refreshed: the branches of its diamonds.

    A diamond lies between `path` and a table that it reads by several ways that meet nowhere before. At different versions of that
    table, rows would be joined that never existed together. If all ways pass through one table, that table's version decides.

    From `path` on, readers before sources, each table gets a gate: of the tables through which all its ways to `path` pass, the
    last one before `path`. A table is its own gate if `path` reads it, or if its readers have several gates; then it is a fork.
    Where all that is left has one gate, there is no further fork.
    """
    gates: dict[str, set[str]] = {}  # of the readers of each table that is left
    left = Counter[str]()  # how many of those have each gate
    places, seen, forks = list[int](), list[str](), set[str]()

    def add(gate: str, sources: Collection[str]) -> None:
        for source in sources:
            if source not in gates:
                gates[source] = set()
                heappush(places, -graph.place[source])
            if gate not in gates[source]:
                gates[source].add(gate)
                left[gate] += 1

    add(path, graph.sources[path])
    while len(left) > 1 or path in left:
        each = graph.order[-heappop(places)]
        found = gates.pop(each)
        left.subtract(found)
        for gate in found:
            if not left[gate]:
                del left[gate]
        seen.append(each)
        if len(found) > 1:
            forks.add(each)
        add(each if len(found) > 1 or path in found else found.pop(), graph.sources[each])
    behind = set[str]()
    for each in reversed(seen):
        if any(source in forks or source in behind for source in graph.sources[each]):
            behind.add(each)
    return frozenset(behind)
