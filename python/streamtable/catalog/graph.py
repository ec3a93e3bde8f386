"""Who reads whom: the graph of stream tables and their sources, by path."""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable
from typing import TypeVar

import networkx as nx
from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry, entries
from streamtable.errors import DependencyCycle

__all__ = ["dependencies", "read_by", "refuse_cycle", "without_cycles"]

_Node = TypeVar("_Node", bound=Hashable)

_log = logging.getLogger(__name__)


def dependencies(spark: SparkSession) -> nx.DiGraph[str]:
    """Return the graph of all stream tables, without edges of cycles."""
    return read_by(entries(spark))


def read_by(tables: Iterable[Entry]) -> nx.DiGraph[str]:
    """Return the graph of paths: an edge from each source to each stream table that reads it. A stream table has its name there.

    Edges of cycles are left out.
    """
    return without_cycles(_stored(tables))


def _stored(tables: Iterable[Entry]) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for entry in tables:
        graph.add_node(entry.path, name=entry.definition.name)
        for path in entry.definition.sources:
            graph.add_edge(path, entry.path)
    return graph


def without_cycles(graph: nx.DiGraph[_Node]) -> nx.DiGraph[_Node]:
    """Take the edges of cycles out of a graph, and return it. Other tables go on, whatever the definitions of these say."""
    for several in list(nx.strongly_connected_components(graph)):
        if len(several) == 1 and not graph.has_edge(*several, *several):
            continue
        _log.error("no order of refreshes serves tables that read each other in a cycle: %s", sorted(several, key=str))
        graph.remove_edges_from(list(graph.subgraph(several).edges))
    return graph


def refuse_cycle(spark: SparkSession, entry: Entry, paths: Iterable[str]) -> None:
    """Raise DependencyCycle if a table that reads `paths` would read itself, at some depth."""
    graph = _stored(entries(spark))
    for path in paths:
        if path == entry.path or (path in graph and entry.path in graph and nx.has_path(graph, entry.path, path)):
            hint = "read another table there: ALTER STREAM TABLE ... AS, or put the view right that leads back"
            raise DependencyCycle(f"{entry.definition.name} would read itself through the table at {path}", hint=hint)
