"""The layout of a graph: boxes in columns, so that every edge runs to the right and none runs behind a box.

A layered drawing after Sugiyama. An edge that skips a column has a place of its own there, between the boxes: it crosses the column
in a straight line, and bends in the empty space between two columns only. That is why it never runs behind a box.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import networkx as nx

__all__ = ["BOX_HEIGHT", "BOX_WIDTH", "Drawing", "Place", "drawn"]

BOX_WIDTH, BOX_HEIGHT, LANE_HEIGHT = 200.0, 46.0, 10.0
BETWEEN_COLUMNS, BETWEEN_ROWS, MARGIN = 64.0, 14.0, 12.0
ARROW = 7.0
"""The room that an arrowhead needs in front of a box."""
SWEEPS = 8


@dataclass(frozen=True)
class Place:
    """The upper left corner of a box."""

    x: float
    y: float


@dataclass(frozen=True)
class Drawing:
    """The positions of the boxes, and the path of each edge in SVG, in the direction of the graph."""

    places: dict[str, Place]
    paths: dict[tuple[str, str], str]
    width: float
    height: float


def drawn(graph: nx.DiGraph[str]) -> Drawing:
    """Place the nodes of any graph; the edge that closes a circle is drawn backwards."""
    back = _backward(graph)
    forward: nx.DiGraph[str] = nx.DiGraph()
    forward.add_nodes_from(sorted(graph))
    forward.add_edges_from(sorted((b, a) if (a, b) in back else (a, b) for a, b in graph.edges if a != b))
    column = _columns(forward)
    lanes, ways = _with_lanes(forward, column)
    rows = _ordered(lanes, column)
    middle = _middles(lanes, rows)
    top = min((middle[each] - _height(each) / 2 for row in rows for each in row), default=0.0) - MARGIN
    middle = {each: at - top for each, at in middle.items()}
    bottom = max((middle[each] + _height(each) / 2 for row in rows for each in row), default=0.0) + MARGIN
    places = {node: Place(_left(column[node]), middle[node] - BOX_HEIGHT / 2) for node in forward}
    paths = dict[tuple[str, str], str]()
    for a, b in graph.edges:
        if a != b:
            backwards = (a, b) in back
            way = [(_left(_column(each, column)), middle[each]) for each in ways[(b, a) if backwards else (a, b)]]
            paths[a, b] = _path(way, backwards)
    width = _left(max(column.values(), default=0)) + BOX_WIDTH + MARGIN
    return Drawing(places, paths, width, bottom)


def _height(node: Hashable) -> float:
    return LANE_HEIGHT if isinstance(node, tuple) else BOX_HEIGHT


def _left(column: int) -> float:
    return MARGIN + column * (BOX_WIDTH + BETWEEN_COLUMNS)


def _column(node: Hashable, column: dict[str, int]) -> int:
    return node[1] if isinstance(node, tuple) else column[str(node)]


def _backward(graph: nx.DiGraph[str]) -> set[tuple[str, str]]:
    """Return edges without which there is no circle."""
    back = set[tuple[str, str]]()
    for circle in nx.strongly_connected_components(graph):
        if len(circle) > 1:
            order = {node: n for n, node in enumerate(nx.dfs_postorder_nodes(graph.subgraph(circle), min(circle)))}
            back |= {(a, b) for a, b in graph.subgraph(circle).edges if order[a] <= order[b] and a != b}
    return back


def _columns(graph: nx.DiGraph[str]) -> dict[str, int]:
    """Return the column of each node: right of all its sources. A node without sources stands just before its first reader."""
    column = dict[str, int]()
    for node in nx.topological_sort(graph):
        column[node] = max((column[each] + 1 for each in graph.predecessors(node)), default=0)
    for node in graph:
        if not graph.in_degree(node) and graph.out_degree(node):
            column[node] = min(column[each] for each in graph.successors(node)) - 1
    return column


def _with_lanes(
    graph: nx.DiGraph[str], column: dict[str, int]
) -> tuple[nx.DiGraph[Hashable], dict[tuple[str, str], list[Hashable]]]:
    """Return the graph whose edges lead to the next column only, and the way of each edge through it.

    The edges of one node share their lanes.
    """
    lanes: nx.DiGraph[Hashable] = nx.DiGraph()
    lanes.add_nodes_from(graph)
    ways = dict[tuple[str, str], list[Hashable]]()
    for a, b in graph.edges:
        way: list[Hashable] = [a, *((a, n) for n in range(column[a] + 1, column[b])), b]
        ways[a, b] = way
        nx.add_path(lanes, way)
    return lanes, ways


def _ordered(lanes: nx.DiGraph[Hashable], column: dict[str, int]) -> list[list[Hashable]]:
    """Return the rows of each column in an order with few crossings: each node near the middle of its neighbours."""
    rows: list[list[Hashable]] = [[] for _ in range(max(column.values(), default=-1) + 1)]
    for node in lanes:
        rows[_column(node, column)].append(node)
    at = {node: float(n) for row in rows for n, node in enumerate(row)}
    for sweep in range(SWEEPS):
        rightwards = sweep % 2 == 0
        near = lanes.predecessors if rightwards else lanes.successors
        for row in rows if rightwards else reversed(rows):
            wanted = {node: _mean((at[each] for each in near(node)), at[node]) for node in row}
            row.sort(key=lambda node: (wanted[node], at[node]))
            at.update((node, float(n)) for n, node in enumerate(row))
    return rows


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return fmean(found) if found else otherwise


def _middles(lanes: nx.DiGraph[Hashable], rows: Sequence[Sequence[Hashable]]) -> dict[Hashable, float]:
    """Return the height of each node: near its neighbours, and below the one before it in its column."""
    middle = dict[Hashable, float]()
    for row in rows:
        middle.update(zip(row, _apart(row, [0.0] * len(row)), strict=True))
    for sweep in range(SWEEPS):
        rightwards = sweep % 2 == 0
        near = lanes.predecessors if rightwards else lanes.successors
        for row in rows if rightwards else reversed(rows):
            wanted = [_mean((middle[each] for each in near(node)), middle[node]) for node in row]
            middle.update(zip(row, _apart(row, wanted), strict=True))
    return middle


def _apart(row: Sequence[Hashable], wanted: Sequence[float]) -> list[float]:
    """Return the heights nearest to the wanted ones at which nothing touches: isotonic regression, by pooling neighbours."""
    offset, offsets = 0.0, list[float]()
    for n, node in enumerate(row):
        offset += (_height(row[n - 1]) + _height(node)) / 2 + BETWEEN_ROWS if n else 0.0
        offsets.append(offset)
    pools = list[tuple[float, int]]()  # the mean, and of how many
    for at, shift in zip(wanted, offsets, strict=True):
        mean, number = at - shift, 1
        while pools and pools[-1][0] > mean:
            other, size = pools.pop()
            mean, number = (other * size + mean * number) / (size + number), size + number
        pools.append((mean, number))
    level = [mean for mean, number in pools for _ in range(number)]
    return [mean + shift for mean, shift in zip(level, offsets, strict=True)]


def _path(way: Sequence[tuple[float, float]], backwards: bool) -> str:
    """Return the line along the lanes: straight through a column, bent between two."""
    points = list[tuple[str, float, float]]()
    for n, ((x1, y1), (x2, y2)) in enumerate(pairwise(way)):
        last = n == len(way) - 2
        start = x1 + BOX_WIDTH + (ARROW if backwards and n == 0 else 0)
        end = x2 - (ARROW if last and not backwards else 0)
        points += [("L" if points else "M", start, y1), ("C", (start + end) / 2, y1), ("", (start + end) / 2, y2), ("", end, y2)]
    if not backwards:
        return " ".join(f"{letter}{x:.1f},{y:.1f}" for letter, x, y in points)
    letters = ["M" if n == 0 else ("C" if n % 4 == 1 else "L" if n % 4 == 0 else "") for n in range(len(points))]
    turned = [(x, y) for _, x, y in reversed(points)]
    return " ".join(f"{letter}{x:.1f},{y:.1f}" for letter, (x, y) in zip(letters, turned, strict=True))
