"""One cycle: a set of tables, refreshed in order against one vector of versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import uuid4

import networkx as nx
from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry, find_at
from streamtable.catalog.graph import dependencies
from streamtable.catalog.requests import Request
from streamtable.delta.tables import Version
from streamtable.errors import ConcurrentRefresh, StreamTableNotFound
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.records import MANUAL, Cause
from streamtable.refresh.run import Outcome, refresh
from streamtable.schedule.failures import recorded
from streamtable.schedule.graph import Graph

__all__ = ["Cycle", "Refreshed", "Task", "as_it_is", "carry_out", "chosen", "cycle_of", "named", "together"]


@dataclass(frozen=True)
class Task:
    """Refresh the table at `path` with its sources at `vector`; `joins` says that branches of a diamond meet in it.

    `request` is the request that asked for it before the vector was read, `deadline` the time by which it is due. `tag` is that of
    its Spark jobs, and of no others: refreshes by hand, and those of another scheduler, have the same group.
    """

    path: str
    name: str
    vector: Vector
    joins: bool
    request: Request | None = None
    deadline: datetime | None = None
    tag: str = field(default_factory=lambda: f"streamtable-{uuid4().hex}", compare=False)

    @property
    def group(self) -> str:
        """Return the group of its Spark jobs, which people see."""
        return f"streamtable {self.name}"


@dataclass(frozen=True)
class Refreshed:
    """A table after its refresh: its version, and the versions of its sources. `skipped`: it was not refreshed.

    `elsewhere`: another scheduler still carries out the request for it. Requests for its readers wait until that is done.
    """

    version: Version
    sources: Mapping[str, Version]
    skipped: bool = False
    elsewhere: bool = False


class Cycle:
    """Hand out each table of a set as soon as its sources in the set are done.

    A table reads others of the set at the version that the cycle made, and everything else at the version of the vector. So all
    tables that are derived from one base table have one version of it. Readers of a table that failed are skipped. The table in
    which the branches of a diamond meet is skipped if another session refreshed a branch meanwhile, because it must read both at
    one vector.
    """

    def __init__(self, graph: Graph, names: Mapping[str, str], vector: Vector, requests: Mapping[str, Request] = {}) -> None:
        """Make a cycle of the tables in `names` (by path). Ready tables are handed out in this order."""
        self.vector = vector
        self._requests = requests
        self._graph, self.names = graph, names
        self._versions = dict(vector.versions)
        self._waiting, self._unfinished = list(names), set(names)

    @property
    def unfinished(self) -> frozenset[str]:
        """Return the tables that wait or are being refreshed."""
        return frozenset(self._unfinished)

    def ready(self) -> list[str]:
        """Return the tables whose sources are done."""
        return [path for path in self._waiting if self._unfinished.isdisjoint(self._graph.sources[path])]

    def start(self, path: str) -> Task:
        """Hand out one of the tables that are ready."""
        self._waiting.remove(path)
        sources = {source: self._versions[source] for source in self._graph.sources[path] if source in self._versions}
        return Task(
            path, self.names[path], Vector(sources, self.vector.at), bool(self._graph.branches(path)), self._requests.get(path)
        )

    def refreshed(self, task: Task, done: Refreshed) -> list[str]:
        """Go on with the table's readers. Skip, and return, readers that would join the table with versions of another vector."""
        self._unfinished.discard(task.path)
        self._versions[task.path] = done.version
        if done.elsewhere:
            self._skip([reader for reader in self._readers(task.path) if reader in self._requests])
        if all(done.sources.get(path) == version for path, version in task.vector.versions.items()):
            return []
        joining = [reader for reader in self._readers(task.path) if task.path in self._graph.branches(reader)]
        return self._skip(list(dict.fromkeys((*joining, *self._readers(*joining)))))

    def failed(self, task: Task) -> list[str]:
        """Skip the table's readers, and return them."""
        self._unfinished.discard(task.path)
        return self._skip(self._readers(task.path))

    def stop(self, running: Collection[str]) -> None:
        """Hand out nothing more: only the running tables are unfinished."""
        self._waiting.clear()
        self._unfinished.intersection_update(running)

    def _readers(self, *paths: str) -> list[str]:
        below = self._graph.all_readers(paths, self.names)
        return [each for each in self._waiting if each in below]

    def _skip(self, paths: list[str]) -> list[str]:
        gone = {*paths}
        self._waiting = [path for path in self._waiting if path not in gone]
        self._unfinished -= gone
        return paths


def carry_out(spark: SparkSession, task: Task, cause: Cause, full: bool = False) -> tuple[Outcome | None, Refreshed]:
    """Refresh the table. Without an outcome it was skipped, because another session has joined newer versions
    of its branches.

    A refresh would mix the two vectors. Raises what `refresh` raises.
    """
    entry, before = _standing(spark, task)
    if task.joins and before is not None and before.ahead_of(task.vector) and not _went_back(spark, before, task.vector):
        return None, replace(_refreshed(entry, before), skipped=True)
    outcome = refresh(spark, entry, full, task.vector, cause)
    entry, after = _standing(spark, task)
    assert after is not None, "a refresh leaves a frontier"
    return outcome, _refreshed(entry, after)


def _went_back(spark: SparkSession, before: Frontier, vector: Vector) -> bool:
    """Tell whether a source itself is behind the contents: an older copy took its place, so that nobody else moved on."""
    return before.ahead_of(Vector.read(spark, tuple(vector.versions)))


def as_it_is(spark: SparkSession, task: Task) -> Refreshed | None:
    """Return the table as it stands, which another scheduler refreshes; None while it was never refreshed."""
    entry, frontier = _standing(spark, task)
    if frontier is None:
        return None
    open_ = any(each.id == task.request.id for each in entry.requests) if task.request else False
    return replace(_refreshed(entry, frontier), elsewhere=open_)


def _standing(spark: SparkSession, task: Task) -> tuple[Entry, Frontier | None]:
    entry = find_at(spark, task.path)
    if entry is None:
        raise StreamTableNotFound(f"{task.name} is no stream table any more")
    return entry, Frontier.of(entry.state.frontier)


def _refreshed(entry: Entry, frontier: Frontier) -> Refreshed:
    return Refreshed(entry.state.latest, frontier.sources)


def chosen(spark: SparkSession, wanted: Sequence[Entry], with_sources: bool) -> tuple[nx.DiGraph[str], dict[str, str]]:
    """Return the graph of dependencies, and the names of the wanted tables by path; `with_sources` also of those that they read."""
    graph = dependencies(spark)
    for entry in wanted:  # it is there already, unless it could not be read again
        graph.add_node(entry.path, name=entry.definition.name)
    paths = {entry.path for entry in wanted}
    moving = paths | Graph.of(graph).all_sources(paths) if with_sources else paths
    return graph, named(graph, moving)


def named(graph: nx.DiGraph[str], moving: Collection[str]) -> dict[str, str]:
    """Return the names of stream tables by path, sources before readers. A base table has no name in the graph."""
    return {path: name for path in nx.topological_sort(graph) if path in moving and (name := graph.nodes[path].get("name"))}


def cycle_of(spark: SparkSession, graph: nx.DiGraph[str], names: Mapping[str, str]) -> Cycle:
    """Return a cycle of the tables in `names` over the latest versions of all that they read."""
    whole = Graph.of(graph)
    read = whole.all_sources(names) | names.keys()
    return Cycle(whole, names, Vector.read(spark, [path for path in whole.order if path in read]))


def together(spark: SparkSession, wanted: Sequence[Entry], full: bool, with_sources: bool) -> list[Outcome]:
    """Refresh stream tables, sources before readers, against one vector; `with_sources` also those that they read.

    The outcomes of the wanted tables come first, in their order. Raises the first error.
    """
    paths = list(dict.fromkeys(entry.path for entry in wanted))
    cycle = cycle_of(spark, *chosen(spark, wanted, with_sources))
    outcomes = dict[str, Outcome]()
    while ready := cycle.ready():
        task = cycle.start(ready[0])
        with recorded(spark, task.path):
            outcome, done = carry_out(spark, task, MANUAL, full and task.path in paths)
        if outcome is not None:
            outcomes[task.path] = outcome
        cycle.refreshed(task, done)
    if missed := [entry.definition.name for entry in wanted if entry.path not in outcomes]:
        raise ConcurrentRefresh(f"another session refreshed tables that {', '.join(missed)} read meanwhile", hint="refresh again")
    return [outcomes[path] for path in dict.fromkeys((*paths, *outcomes))]
