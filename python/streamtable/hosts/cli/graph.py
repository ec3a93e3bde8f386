"""The graph of dependencies as text, for Graphviz, and as a picture."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import TypeAlias

import networkx as nx

from streamtable.api.answers import Dependency
from streamtable.catalog.graph import without_cycles
from streamtable.hosts.cli.options import GraphFormat

__all__ = ["GraphFormat", "drawn", "graph_of", "rows_of"]

Graph: TypeAlias = "nx.DiGraph[str]"

WIDTH_OF_A_LETTER, HEIGHT, GAP, BETWEEN, MARGIN = 8, 32, 16, 80, 16
STREAM_TABLE = "stream table"
TABLES = ("table", STREAM_TABLE)
COLOURS = {"table": "#e8e8e8", STREAM_TABLE: "#cfe4ff"}


def graph_of(dependencies: Iterable[Dependency], names: Iterable[str]) -> Graph:
    """Return the graph of tables, with an edge from each source to what reads it; `kind` tells tables from stream tables.

    Views and functions are no nodes: what they read is a source of the stream table itself.
    `names` are those of all stream tables: one whose query reads no table has no dependency.
    """
    graph: Graph = nx.DiGraph()
    for each in (each for each in dependencies if each.kind in TABLES):
        graph.add_node(each.name, kind=STREAM_TABLE)
        if each.source not in graph:
            graph.add_node(each.source, kind=each.kind)
        graph.add_edge(each.source, each.name)
    graph.add_nodes_from(names, kind=STREAM_TABLE)
    return graph


def rows_of(graph: Graph) -> list[tuple[str, str | None, str | None]]:
    """Return (name, source, kind of the source) for each edge; for a stream table that reads no table, its name alone."""
    nodes = graph.nodes(data="kind")
    edges = [(reader, source, nodes[source]) for source, reader in graph.edges]
    return [*edges, *((node, None, None) for node, kind in nodes if kind == STREAM_TABLE and not graph.in_degree(node))]


def drawn(graph: Graph, form: GraphFormat) -> str:
    """Return the graph as text in the form."""
    return {GraphFormat.TEXT: _text, GraphFormat.DOT: _dot, GraphFormat.SVG: _svg}[form](graph)


def _text(graph: Graph) -> str:
    return "\n".join(nx.generate_network_text(graph, vertical_chains=False)) if graph else ""


def _dot(graph: Graph) -> str:
    nodes = (
        f"  {json.dumps(node)} [style=filled, fillcolor={json.dumps(COLOURS[data['kind']])}];"
        for node, data in graph.nodes(data=True)
    )
    edges = (f"  {json.dumps(source)} -> {json.dumps(reader)};" for source, reader in graph.edges)
    return "\n".join(("digraph stream_tables {", "  rankdir=LR;", "  node [shape=box];", *nodes, *edges, "}"))


def _svg(graph: Graph) -> str:
    """Draw sources to the left of their readers, one column per generation."""
    boxes, left = dict[str, tuple[int, int, int]](), MARGIN
    for generation in nx.topological_generations(without_cycles(graph.copy())):
        width = WIDTH_OF_A_LETTER * max(map(len, generation)) + GAP
        for row, node in enumerate(sorted(generation)):
            boxes[node] = left, MARGIN + row * (HEIGHT + GAP), width
        left += width + BETWEEN
    right = max((x + width for x, _, width in boxes.values()), default=0) + MARGIN
    bottom = max((y + HEIGHT for _, y, _ in boxes.values()), default=0) + MARGIN
    size = f'width="{right}" height="{bottom}" viewBox="0 0 {right} {bottom}"'
    edges = (_edge(boxes[source], boxes[reader]) for source, reader in graph.edges)
    nodes = (_box(node, boxes[node], COLOURS[data["kind"]]) for node, data in graph.nodes(data=True))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="13">'
    return "\n".join((opening, *edges, *nodes, "</svg>"))


def _edge(source: tuple[int, int, int], reader: tuple[int, int, int]) -> str:
    x1, y1, x2, y2 = source[0] + source[2], source[1] + HEIGHT // 2, reader[0], reader[1] + HEIGHT // 2
    middle = (x1 + x2) // 2
    return f'<path d="M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}" fill="none" stroke="#888888"/>'


def _box(node: str, box: tuple[int, int, int], colour: str) -> str:
    x, y, width = box
    rectangle = f'<rect x="{x}" y="{y}" width="{width}" height="{HEIGHT}" rx="4" fill="{colour}" stroke="#888888"/>'
    return f'{rectangle}<text x="{x + GAP // 2}" y="{y + HEIGHT // 2 + 5}">{escape(node)}</text>'
