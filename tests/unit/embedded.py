"""Where the grammar holds texts of others: the ways from a statement to each query, condition, name and string, and those in a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lark import Lark, Token, Tree

from streamtable.language.comments import blanked
from streamtable.language.parse import grammar

__all__ = ["NAMES", "TEXTS", "Found", "Way", "found_in", "ways"]

Way = tuple[str, ...]
"""The rules from a statement down to what it holds, which is last."""

TEXTS = ("query", "inner_query", "condition", "expected")
"""What Spark reads."""
NAMES = ("name", "relation", "namespace")
_WORDS = ("string", "STRING", "identifier")
"""What may be anything; of most rules it is none that is looked up."""
_LEAVES = (*TEXTS, *NAMES, *_WORDS)

_LANGUAGE = Lark(
    grammar(), parser="lalr", lexer="contextual", start="statement", propagate_positions=True, maybe_placeholders=False
)
_RULES = {
    origin: [each for each in _LANGUAGE.rules if each.origin.name == origin]
    for origin in {rule.origin.name for rule in _LANGUAGE.rules}
}


@dataclass(frozen=True)
class Found:
    """What a statement holds in a place: its text, and the parts of a name."""

    way: Way
    text: str
    parts: tuple[str, ...]


def ways() -> set[Way]:
    """Return all that the grammar allows."""
    return _below("statement", ())


def _below(rule: str, above: tuple[str, ...]) -> set[Way]:
    found = set[Way]()
    for symbol in (symbol for each in _RULES[rule] for symbol in each.expansion):
        name = str(symbol.name)
        if name in _LEAVES:
            found.add((name,))
        elif not symbol.is_term and name not in (rule, *above):
            inlined = name.startswith("_") or _RULES[name][0].options.expand1
            found |= {way if inlined else (name, *way) for way in _below(name, (*above, rule))}
        else:
            assert name not in ("QUERY", "MASKED"), f"{rule} holds a text: give it a rule of its own, as `condition`"
    return found


def found_in(text: str) -> list[Found]:
    """Return what a statement holds, in order."""
    return list(_found(_LANGUAGE.parse(blanked(text)), text, ()))


def _found(node: Tree[Token] | Token, text: str, above: Way) -> Iterator[Found]:
    if isinstance(node, Token):
        if node.type in _LEAVES:
            yield Found((*above, node.type), str(node), ())
        return
    way = (*above, str(node.data))
    if node.data in _LEAVES:
        parts = tuple(_spelled(each) for each in node.children) if node.data in NAMES else ()
        yield Found(way, text[node.meta.start_pos : node.meta.end_pos], parts)
    else:
        for child in node.children:
            yield from _found(child, text, way)


def _spelled(part: Tree[Token] | Token) -> str:
    word = part.children[0] if isinstance(part, Tree) else part
    return str(word).removeprefix("`").removesuffix("`")
