"""Where the boxes of the console's graph stand: nothing overlaps, and no edge runs behind a box."""

from __future__ import annotations

import random
import re
from itertools import combinations

import networkx as nx
import pytest

from streamtable.hosts.console.layout import BOX_HEIGHT, BOX_WIDTH, Drawing, drawn

Point = tuple[float, float]


def points(path: str) -> list[Point]:
    """Return points along a path of lines and Bezier curves, close to each other."""
    numbers = [[tuple(map(float, each.split(","))) for each in part.split()] for part in re.split("[MLC]", path)[1:]]
    at, found = numbers[0][0], list[Point]()
    for letter, part in zip(re.findall("[LC]", path), numbers[1:], strict=True):
        ends = [at, *part]
        for n in range(101):
            t = n / 100
            if letter == "L":
                found.append(tuple(a + (b - a) * t for a, b in zip(*ends, strict=True)))
            else:
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
                found.append(tuple(sum(w * p[i] for w, p in zip(weights, ends, strict=True)) for i in (0, 1)))  # type: ignore[arg-type]
        at = part[-1]
    return found


def behind(drawing: Drawing, at: Point) -> list[str]:
    """Return the boxes that cover a point."""
    x, y = at
    return [
        name
        for name, place in drawing.places.items()
        if place.x + 0.1 < x < place.x + BOX_WIDTH - 0.1 and place.y + 0.1 < y < place.y + BOX_HEIGHT - 0.1
    ]


def random_graph(seed: int) -> nx.DiGraph[str]:
    choose = random.Random(seed)
    graph: nx.DiGraph[str] = nx.DiGraph()
    number = choose.randrange(1, 40)
    graph.add_nodes_from(map(str, range(number)))
    for _ in range(choose.randrange(2 * number)):
        a, b = choose.randrange(number), choose.randrange(number)
        graph.add_edge(*map(str, (a, b) if seed % 3 == 0 else sorted((a, b))))  # every third has circles
    return graph


@pytest.mark.parametrize("seed", range(40))
def test_nothing_overlaps_and_no_edge_runs_behind_a_box(seed: int) -> None:
    graph = random_graph(seed)
    drawing = drawn(graph)
    assert drawing.places.keys() == set(graph)
    for one, other in combinations(drawing.places.values(), 2):
        assert abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT
    for place in drawing.places.values():
        assert 0 <= place.x <= drawing.width - BOX_WIDTH and 0 <= place.y <= drawing.height - BOX_HEIGHT
    for edge, path in drawing.paths.items():
        line = points(path)
        assert [at for at in line if behind(drawing, at)] == [], (edge, path)
        for end, node in ((line[0], edge[0]), (line[-1], edge[1])):
            place = drawing.places[node]
            assert abs(end[1] - place.y - BOX_HEIGHT / 2) < 0.2, "an edge ends in the middle of a side"
            assert min(abs(end[0] - place.x), abs(end[0] - place.x - BOX_WIDTH)) < 8


def test_readers_stand_to_the_right_of_what_they_read() -> None:
    graph = nx.DiGraph([("sales", "daily"), ("daily", "monthly"), ("sales", "monthly"), ("regions", "monthly")])
    places = drawn(graph).places
    assert all(places[a].x < places[b].x for a, b in graph.edges)
    assert places["regions"].x == places["daily"].x, "a source stands near its reader"


def test_a_graph_of_nothing_and_one_that_reads_itself() -> None:
    assert drawn(nx.DiGraph()).paths == {}
    assert drawn(nx.DiGraph([("a", "a")])).paths == {}
