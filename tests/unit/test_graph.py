"""The graph of dependencies in its three forms."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from streamtable.api.answers import Dependency
from streamtable.hosts.cli.graph import GraphFormat, drawn, graph_of, rows_of

FOUND = [
    Dependency("s.large", "s.orders", "table"),
    Dependency("s.total", "s.large", "stream table"),
    Dependency("s.total", 's."odd" <name>', "table"),
]
THROUGH = [Dependency("s.large", "s.a_view", "view"), Dependency("s.total", "s.a_function", "function")]
NAMES = ["s.alone", "s.large", "s.total"]


def test_kinds_and_edges() -> None:
    graph = graph_of([*FOUND, *THROUGH], NAMES)
    assert dict(graph.nodes(data="kind")) == {
        "s.orders": "table",
        "s.large": "stream table",
        "s.total": "stream table",
        's."odd" <name>': "table",
        "s.alone": "stream table",
    }
    assert list(graph.successors("s.large")) == ["s.total"]
    assert sorted(rows_of(graph)[:-1]) == sorted((each.name, each.source, each.kind) for each in FOUND)
    assert rows_of(graph)[-1] == ("s.alone", None, None)


def test_text() -> None:
    lines = [line.lstrip("╟╙╼└─╾│╎ ") for line in drawn(graph_of(FOUND, NAMES), GraphFormat.TEXT).splitlines()]
    assert lines[:2] == ["s.orders", "s.large"] and "s.alone" in lines
    assert drawn(graph_of([], []), GraphFormat.TEXT) == ""


def test_dot_quotes_names() -> None:
    dot = drawn(graph_of(FOUND, NAMES), GraphFormat.DOT)
    assert '"s.orders" -> "s.large";' in dot
    assert r'"s.\"odd\" <name>" -> "s.total";' in dot


def test_svg_is_well_formed_and_reads_from_left_to_right() -> None:
    picture = ET.fromstring(drawn(graph_of(FOUND, NAMES), GraphFormat.SVG))  # noqa: S314  (we made it)
    name = "{http://www.w3.org/2000/svg}"
    texts = {element.text: int(element.attrib["x"]) for element in picture.iter(f"{name}text")}
    assert texts['s."odd" <name>'] == texts["s.orders"] == texts["s.alone"] < texts["s.large"] < texts["s.total"]
    assert len(list(picture.iter(f"{name}path"))) == 3
    assert drawn(graph_of([], []), GraphFormat.SVG).endswith("</svg>")
