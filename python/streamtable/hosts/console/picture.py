"""The picture of the graph: the shown objects, the schemas that are collapsed to one box, and all positions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import networkx as nx

from streamtable.hosts.console.layout import drawn
from streamtable.hosts.words import ago, cut, schema_of, short
from streamtable.observe.status import Kind, Standing, Status, TableStatus, graph_of

__all__ = ["MANY", "Box", "Picture", "picture_of", "schemas_of"]

MANY = 60
"""Above this number of objects, schemas are collapsed until somebody opens them."""

LETTERS = 21
UNREADABLE = "unreadable"
WORST = (UNREADABLE, *(each.value for each in (Standing.FAILING, Standing.SUSPENDED, Standing.STALE, Standing.FRESH)))


@dataclass(frozen=True)
class Box:
    """One box: its text, and `look`, the way it is drawn. `schema` is set for a collapsed one."""

    key: str
    label: str
    title: str
    under: str
    look: str
    kind: str
    x: float
    y: float
    schema: str | None = None


@dataclass(frozen=True)
class Picture:
    """All boxes and edges to draw."""

    boxes: tuple[Box, ...]
    paths: tuple[str, ...]
    width: float
    height: float
    opened: tuple[str, ...]


def schemas_of(status: Status) -> list[str]:
    """Return the schemas of all that is in the graph."""
    return sorted({schema_of(data["name"]) for _, data in graph_of(status).nodes(data=True)})


def picture_of(status: Status, only: str | None = None, opened: Collection[str] = ()) -> Picture:
    """Return the picture: of everything, or of `only` one schema with the schemas that it reads or that read it, as boxes.

    Of many objects, only those of the schemas `opened` are shown one by one.
    """
    graph = graph_of(status)
    home = {key: schema_of(data["name"]) for key, data in graph.nodes(data=True)}
    every = set(home.values())
    seen = {only} if only else every if len(graph) <= MANY else every & set(opened)
    shown: nx.DiGraph[str] = nx.DiGraph()
    target = {key: key if home[key] in seen else f"schema {home[key]}" for key in graph}
    near = {key for edge in graph.edges for key in edge if only in (home[edge[0]], home[edge[1]])}
    for key in graph:
        if only is None or home[key] == only or key in near:
            shown.add_node(target[key])
    shown.add_edges_from((target[a], target[b]) for a, b in graph.edges if target[a] in shown and target[b] in shown)
    shown.remove_edges_from(list(nx.selfloop_edges(shown)))
    drawing = drawn(shown)
    tables = {".".join(each.name): each for each in status.tables}
    boxes = list[Box]()
    for key, place in drawing.places.items():
        if key in graph:
            node = graph.nodes[key]
            boxes.append(_box(key, node["kind"], node["name"], tables.get(node["name"]), status, place.x, place.y))
        else:
            members = [graph.nodes[each] for each in graph if target[each] == key]
            boxes.append(_schema(key, members, tables, status, place.x, place.y))
    boxes.sort(key=lambda box: (box.x, box.y))  # the keyboard goes from left to right
    shown_schemas = () if only or len(graph) <= MANY else tuple(sorted(seen))
    return Picture(tuple(boxes), tuple(drawing.paths.values()), drawing.width, drawing.height, shown_schemas)


def _box(key: str, kind: Kind, name: str, table: TableStatus | None, status: Status, x: float, y: float) -> Box:
    title = short(name)
    label = cut(title.rpartition(".")[2] if kind is not Kind.CONSUMER else title.rpartition(": ")[2], LETTERS)
    if table:
        at = table.last_success.at if table.last_success else None
        under = f"{table.standing.value} · {ago(at, status.at)}"
        return Box(key, label, title, under, table.standing.value, kind.value, x, y)
    if name in status.unreadable:
        return Box(key, label, title, UNREADABLE, UNREADABLE, kind.value, x, y)
    return Box(key, label, title, kind.value, "plain", kind.value, x, y)


def _schema(key: str, members: list[dict[str, str]], tables: dict[str, TableStatus], status: Status, x: float, y: float) -> Box:
    schema = key.removeprefix("schema ")
    found = Counter(tables[each["name"]].standing.value for each in members if each["name"] in tables)
    found[UNREADABLE] = sum(each["name"] in status.unreadable for each in members)
    look = next((each for each in WORST if found[each]), "plain")
    told = [f"{found[each]} {each}" for each in WORST if found[each]]
    under = cut(", ".join(told), 29) if told else f"{len(members)} objects"
    title = f"{schema}: {len(members)} objects{''.join(f', {each}' for each in told)}"
    return Box(key, cut(schema, LETTERS), title, under, look, "schema", x, y, schema)
