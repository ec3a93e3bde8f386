"""One cycle: a set of tables, refreshed in order against one vector of versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx
from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry, dependencies, find_at
from streamtable.delta.tables import Version
from streamtable.errors import ConcurrentRefresh, StreamTableNotFound
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.run import Outcome, refresh
from streamtable.schedule.due import branches

__all__ = ["Cycle", "Overtaken", "Refreshed", "Task", "carry_out", "cascade"]


class Overtaken(Exception):
    """The contents of a table that joins branches are newer than the cycle: to refresh it would mix two vectors."""


@dataclass(frozen=True)
class Task:
    """Refresh the table at `path` with its sources at `vector`; `joins` says that branches of a diamond meet in it."""

    path: str
    vector: Vector
    joins: bool


@dataclass(frozen=True)
class Refreshed:
    """Where a table stands after its refresh: its version, and the versions of its sources."""

    version: Version
    sources: Mapping[str, Version]


class Cycle:
    """Hand out the tables of the set as what they read is done; `skipped` tells why some are not handed out.

    A table reads others of the set at the version that the cycle made, and everything else at the version of the vector. So all
    that is derived from one base table stands for one version of it. What reads a table that failed is skipped; and where
    another session refreshed a branch of a diamond meanwhile, so is the table in which the branches meet: at one vector or not
    at all.
    """

    def __init__(self, graph: nx.DiGraph[str], names: Mapping[str, str], vector: Vector) -> None:
        """Refresh the tables that `names` names, by path in the order in which they are handed out."""
        self.skipped: dict[str, str] = {}
        self._graph, self._names, self._vector = graph, names, vector
        self._versions = dict(vector.versions)
        self._waiting, self._unfinished = list(names), set(names)

    @property
    def unfinished(self) -> frozenset[str]:
        """Return the tables that wait or are being refreshed."""
        return frozenset(self._unfinished)

    def ready(self) -> list[str]:
        """Return the tables whose sources are done."""
        return [path for path in self._waiting if self._unfinished.isdisjoint(self._graph.predecessors(path))]

    def start(self, path: str) -> Task:
        """Hand out one of the tables that are ready."""
        self._waiting.remove(path)
        sources = {source: self._versions[source] for source in self._graph.predecessors(path) if source in self._versions}
        return Task(path, Vector(sources, self._vector.at), bool(branches(self._graph, path)))

    def refreshed(self, task: Task, done: Refreshed) -> None:
        """Go on with what reads the table."""
        self._unfinished.discard(task.path)
        self._versions[task.path] = done.version
        if any(done.sources.get(path) != version for path, version in task.vector.versions.items()):
            meet = [reader for reader in self._readers(task.path) if task.path in branches(self._graph, reader)]
            self._skip(meet, f"{self._names[task.path]} was refreshed by another session meanwhile")

    def failed(self, task: Task, reason: str) -> None:
        """Skip what reads the table; `reason` says why it was not refreshed."""
        self._unfinished.discard(task.path)
        self._skip(self._readers(task.path), reason)

    def _readers(self, path: str) -> list[str]:
        below = nx.descendants(self._graph.subgraph(self._names), path)
        return [each for each in self._waiting if each in below]

    def _skip(self, paths: list[str], reason: str) -> None:
        for path in paths:
            for each in (path, *self._readers(path)):
                if each in self._waiting:
                    self._waiting.remove(each)
                    self._unfinished.discard(each)
                    self.skipped[each] = reason


def carry_out(spark: SparkSession, task: Task, full: bool = False) -> tuple[Outcome, Refreshed]:
    """Refresh the table. Raises Overtaken, and what `refresh` raises."""
    entry = find_at(spark, task.path)
    if entry is None:
        raise StreamTableNotFound(f"the table at {task.path} is no stream table any more")
    before = Frontier.of(entry.state.frontier)
    if task.joins and before is not None and _ahead(before, task.vector):
        raise Overtaken(f"{entry.definition.name} was refreshed by another session meanwhile")
    outcome = refresh(spark, entry, full, task.vector)
    return outcome, _standing(spark, task.path)


def _ahead(frontier: Frontier, vector: Vector) -> bool:
    both = [(frontier.sources[path], wanted) for path, wanted in vector.versions.items() if path in frontier.sources]
    return any(before.table_id == wanted.table_id and before.number > wanted.number for before, wanted in both)


def _standing(spark: SparkSession, path: str) -> Refreshed:
    entry = find_at(spark, path)
    frontier = Frontier.of(entry.state.frontier) if entry else None
    if entry is None or frontier is None:
        raise StreamTableNotFound(f"the table at {path} was dropped while it was refreshed")
    return Refreshed(Version(entry.state.table_id, entry.state.version), frontier.sources)


def cascade(spark: SparkSession, entry: Entry, full: bool) -> Outcome:
    """Refresh the stream tables that `entry` reads, then itself, against one vector. Raises what the first that fails raises."""
    graph = dependencies(spark)
    graph.add_node(entry.path, name=entry.definition.name)  # it is there already, unless another catalog is the current one
    above = graph.subgraph({entry.path, *nx.ancestors(graph, entry.path)})
    names = {path: name for path, name in above.nodes(data="name") if name}
    cycle = Cycle(above, names, Vector.read(spark, list(above)))
    while ready := cycle.ready():
        task = cycle.start(ready[0])
        try:
            outcome, done = carry_out(spark, task, full and task.path == entry.path)
        except Overtaken as error:
            raise ConcurrentRefresh(str(error), hint="refresh again") from error
        if task.path == entry.path:
            return outcome
        cycle.refreshed(task, done)
    raise ConcurrentRefresh(cycle.skipped[entry.path], hint="refresh again")
