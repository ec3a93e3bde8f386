"""The syntax of each statement, from the grammar: as text for the pages, and as a railroad diagram for the site.

A rule that is short when it is written out stands where it is used; any other is a part of its own below the statement.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lark import Token, Tree
from lark.grammar import NonTerminal, Terminal
from lark.load_grammar import load_grammar

__all__ = ["Choice", "Many", "Maybe", "Node", "Part", "Series", "Slot", "Statement", "Word", "keywords", "statements", "text"]

GRAMMAR = Path(__file__).parents[1] / "grammar" / "streamtable.lark"
SHORT, LONG, WIDTH = 48, 80, 100
MASKED = {"columns": "expression, ...", "events": "column type, ..."}  # what a `condition` is in these rules
NAMES = {  # what stands for a rule or a terminal: Spark reads it, or everybody knows it
    **{name: name for name in MASKED.values()},
    "expected": "condition",
    **{rule: rule for rule in ("bound", "condition", "identifier", "name", "query", "relation")},
    "namespace": "schema",
    "inner_query": "query",
    "limit": "number",
    "ordinal": "number",
    "every": "'duration'",
    "property_key": "key",
    "property_value": "value",
    "setting_value": "value",
    "string": "'text'",
    "pattern": "'text'",
    "STRING": "'text'",
    "INTEGER": "number",
    "WHOLE": "number",
    "NUMBER": "number",
    "QUERY": "query",
}
SIGNS = {"_LPAR": "(", "_RPAR": ")", "_COMMA": ",", "_DOT": ".", "_EQUAL": "=", "_SEMICOLON": ";"}


@dataclass(frozen=True)
class Word:
    """A keyword, or a sign."""

    text: str


@dataclass(frozen=True)
class Slot:
    """A place that the user fills in, or the name of a part."""

    text: str


@dataclass(frozen=True)
class Series:
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Choice:
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Maybe:
    item: Node


@dataclass(frozen=True)
class Many:
    """One or more, with a comma or nothing in between."""

    item: Node
    comma: bool


Node = Word | Slot | Series | Choice | Maybe | Many
Rules = Mapping[str, Node]


@dataclass(frozen=True)
class Part:
    """A rule that stands below its statement, under its own name."""

    name: str
    node: Node


@dataclass(frozen=True)
class Statement:
    """One statement: the keywords with which it opens, its own syntax, and its parts."""

    title: str
    node: Node
    parts: tuple[Part, ...]


def statements() -> list[Statement]:
    """Return the statements in the order of the grammar."""
    rules = _rules()
    first = rules["statement"]
    assert isinstance(first, Series) and isinstance(first.items[0], Choice), "statement: (one | another) _SEMICOLON*"
    names = [each.text for each in first.items[0].items if isinstance(each, Slot)]
    titles = {name: " ".join(_title(rules[name], rules)).removesuffix(" FROM").removesuffix(" ON") for name in names}
    return [_statement(name, rules, titles) for name in names]


def keywords(statement: Statement) -> set[str]:
    """Return the keywords of a statement and of its parts."""
    nodes = (statement.node, *(part.node for part in statement.parts))
    return {word for node in nodes for each in _walk(node) if isinstance(each, Word | Slot) for word in _capitals(each.text)}


def text(statement: Statement) -> str:
    """Return the syntax of a statement as the pages show it."""
    parts = (f"\n{part.name}:\n{_lines(part.node)}" for part in statement.parts)
    return "\n".join((_wrapped(_text(statement.node), ""), *parts))


def _rules() -> Rules:
    text = GRAMMAR.read_text(encoding="utf-8")
    grammar, _ = load_grammar(text, GRAMMAR.name, [], False)  # type: ignore[no-untyped-call]
    return {str(name): _node(tree, str(name)) for name, _, tree, _ in grammar.rule_defs}


def _node(tree: Any, rule: str) -> Node:
    """Return a tree of lark's own reading of the grammar as one of ours."""
    children = [each for each in tree.children if isinstance(each, Tree)] if tree.data != "value" else tree.children
    match tree.data:
        case "value":
            return _value(children[0], rule)
        case "expansions" if len(children) > 1:
            return Choice(tuple(_node(child, rule) for child in children))
        case "expansions" | "alias":
            return _node(children[0], rule)
        case "expansion":
            return _series([_node(child, rule) for child in children])
        case "maybe":
            return Maybe(_node(children[0], rule))
        case "expr":
            item, sign = _node(children[0], rule), next(str(each) for each in tree.children if isinstance(each, Token))
            return Maybe(item) if sign == "?" else Many(item, comma=False) if sign == "+" else Maybe(Many(item, comma=False))
        case other:
            raise ValueError(f"the grammar has a form that the manual does not know: {other}, in {rule}")


def _value(value: Any, rule: str) -> Node:
    name = str(value.name)
    if isinstance(value, NonTerminal):
        return Slot(MASKED.get(rule, name) if name == "condition" else name)
    assert isinstance(value, Terminal)
    if name in SIGNS:
        return Word(SIGNS[name])
    return Slot(name) if name in NAMES or name in ("NAME", "BACKQUOTED", "MASKED", "SIGN") else Word(name.lstrip("_"))


def _series(items: list[Node]) -> Node:
    """Return the items one after the other; `x (, x)*` is many of them."""
    found: list[Node] = []
    for item in items:
        inner = item.item.item if isinstance(item, Maybe) and isinstance(item.item, Many) else None
        if found and isinstance(inner, Series) and inner.items == (Word(","), found[-1]):
            found[-1] = Many(found[-1], comma=True)
        else:
            found.append(item)
    return found[0] if len(found) == 1 else Series(tuple(found))


def _statement(name: str, rules: Rules, titles: Mapping[str, str]) -> Statement:
    parts: dict[str, Node] = {}
    own: dict[str, Node] = {}
    node = _written(rules[name], name, rules, titles, own)
    if isinstance(node, Series):
        node = Series(tuple(_apart("action", each, LONG, parts, {}) if isinstance(each, Choice) else each for each in node.items))
    parts.update(own)
    return Statement(titles[name], node, tuple(Part(each, found) for each, found in parts.items()))


def _written(node: Node, rule: str, rules: Rules, titles: Mapping[str, str], parts: dict[str, Node]) -> Node:
    """Return the node with short rules written out; longer ones are put into `parts`."""

    def inside(each: Node) -> Node:
        return _written(each, rule, rules, titles, parts)

    match node:
        case Slot(name) if name in NAMES:
            return Slot(NAMES[name])
        case Slot("SIGN"):
            return Choice((Word("+"), Word("-")))
        case Slot(name) if name in titles:
            return Slot(f"{titles[name]} ...")
        case Slot(name):
            own: dict[str, Node] = {}
            return _apart(name, _written(rules[name], name, rules, titles, own), SHORT, parts, own)
        case Series(items):
            return Series(tuple(flat for each in items for flat in _flat(inside(each))))
        case Choice(items):
            return Choice(tuple(way for each in items for way in _ways(each, inside, rules)))
        case Maybe(item):
            return Maybe(inside(item))
        case Many(item, comma):
            return Many(inside(item), comma)
        case Word():
            return node


def _apart(name: str, node: Node, limit: int, parts: dict[str, Node], own: Mapping[str, Node]) -> Node:
    """Return the node where it is short, else its name, under which it is put into the parts before its `own` parts."""
    short = len(_text(node)) <= limit
    if not short:
        parts.setdefault(name.strip("_").replace("_", " "), node)
    parts.update({each: found for each, found in own.items() if each not in parts})
    return node if short else Slot(name.strip("_").replace("_", " "))


def _ways(node: Node, inside: Callable[[Node], Node], rules: Rules) -> tuple[Node, ...]:
    """Return the ways of one alternative: a rule that has one way only is written out, as it has a line of its own."""
    plain = isinstance(node, Slot) and isinstance(rules.get(node.text), Series) and node.text not in NAMES
    found = inside(rules[node.text]) if plain and isinstance(node, Slot) else inside(node)
    return found.items if isinstance(found, Choice) else (found,)


def _flat(node: Node) -> tuple[Node, ...]:
    return node.items if isinstance(node, Series) else (node,)


def _title(node: Node, rules: Rules) -> Iterator[str]:
    """Yield the words with which a statement opens, without those that may be left out."""
    match node:
        case Series(items):
            for item in items:
                if not isinstance(item, Maybe):
                    words = list(_title(item, rules))
                    yield from words
                    if not words:
                        return
        case Choice(items):
            yield from _title(items[0], rules)
        case Slot(name) if name in rules and (name == "create" or name.startswith("_")):
            yield from _title(rules[name], rules)
        case Word(word) if word.isalpha():
            yield word


def _walk(node: Node) -> Iterator[Node]:
    yield node
    match node:
        case Series(items) | Choice(items):
            for item in items:
                yield from _walk(item)
        case Maybe(item) | Many(item, _):
            yield from _walk(item)


def _capitals(text: str) -> list[str]:
    return [word for word in text.split() if word.isupper() and word.isalpha()]


def _text(node: Node) -> str:
    match node:
        case Word(written) | Slot(written):
            return written
        case Series(items):
            joined = " ".join(_grouped(item) for item in items)
            return joined.replace("( ", "(").replace(" )", ")").replace(" ,", ",")
        case Choice(items):
            return " | ".join(map(_text, items))
        case Maybe(Many(item, False)):
            return f"[{_grouped(item)} ...]"
        case Maybe(item):
            return f"[{_text(item)}]"
        case Many(item, comma):
            return f"{_grouped(item)}{',' if comma else ''} ..."


def _grouped(node: Node) -> str:
    return f"{{{_text(node)}}}" if isinstance(node, Choice) else _text(node)


def _lines(node: Node) -> str:
    ways = node.items if isinstance(node, Choice) else (node,)
    return "\n".join(_wrapped(_text(way), "    ") for way in ways)


def _wrapped(line: str, indent: str) -> str:
    """Return the line in lines, which end between clauses where they can: what is in brackets stays together unless it is long."""
    clauses = re.sub(r"\[[^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*\]|\([^()]*\)", lambda found: found[0].replace(" ", "\0"), line)
    lines = textwrap.wrap(
        clauses, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ", break_on_hyphens=False, break_long_words=False
    )
    return "\n".join(lines).replace("\0", " ")
