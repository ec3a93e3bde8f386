"""Railroad diagrams of the statements, as SVG for the site."""

from __future__ import annotations

from io import StringIO
from typing import Any

import railroad

from manual.syntax import Choice, Many, Maybe, Node, Series, Slot, Statement, Word

STYLE = """\
.railroad { overflow-x: auto; margin: 0.5em 0 1em; }
.railroad svg.railroad-diagram { background: none; }
.railroad svg.railroad-diagram path { stroke: var(--md-default-fg-color--light); stroke-width: 1.5; fill: none; }
.railroad svg.railroad-diagram rect { stroke: var(--md-default-fg-color--light); stroke-width: 1; fill: var(--md-code-bg-color); }
.railroad svg.railroad-diagram g.terminal rect { fill: var(--md-default-fg-color--lightest); }
.railroad svg.railroad-diagram text { font: 12px monospace; text-anchor: middle; fill: var(--md-default-fg-color); }
"""
ON_A_LINE = 5  # items of a series; those of a longer one stand in rows


def diagrams(statement: Statement) -> str:
    """Return the diagram of a statement and those of its parts."""
    parts = "".join(f"<p><code>{part.name}</code></p>{_diagram(part.node)}" for part in statement.parts)
    return f'<div class="railroad">{_diagram(statement.node)}{parts}</div>'


def _diagram(node: Node) -> str:
    svg = StringIO()
    railroad.Diagram(_rows(node)).writeSvg(svg.write)
    return svg.getvalue()


def _rows(node: Node) -> Any:
    if isinstance(node, Series) and len(node.items) > ON_A_LINE + 2:
        items = node.items
        rows = [Series(items[begin : begin + ON_A_LINE]) for begin in range(0, len(items), ON_A_LINE)]
        return railroad.Stack(*map(_drawn, rows))
    return _drawn(node)


def _drawn(node: Node) -> Any:
    match node:
        case Word(text):
            return railroad.Terminal(text)
        case Slot(text):
            return railroad.NonTerminal(text)
        case Series(items):
            return railroad.Sequence(*map(_drawn, items))
        case Choice(items):
            return railroad.Choice(0, *map(_drawn, items))
        case Maybe(Many(item, False)):
            return railroad.ZeroOrMore(_drawn(item))
        case Maybe(item):
            return railroad.Optional(_drawn(item))
        case Many(item, comma):
            return railroad.OneOrMore(_drawn(item), railroad.Terminal(",") if comma else None)
