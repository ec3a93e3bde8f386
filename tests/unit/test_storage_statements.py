"""The statements that are tried on storage that fails: all of the grammar, each in the list of what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lark import Lark, Tree
from tests.spark.storage_statements import ALL, CANNOT, LISTS, READS, UNTRIED, WRITES

from streamtable.language.comments import blanked
from streamtable.language.parse import grammar

LANGUAGE = Lark(grammar(), parser="lalr", lexer="contextual", start="statement")
ACTIONS = {"alter": "_action", **{rule: rule for rule in ("alter_queue", "alter_publication", "alter_subscription")}}
"""Statements of several kinds, with the rule that has these as its alternatives."""


def alternatives(rule: str) -> set[str]:
    """Return the rules of which one is the alternative of a rule, or its last part."""
    named = (
        [part.name for part in each.expansion if not part.name.startswith("__")]
        for each in LANGUAGE.rules
        if each.origin.name == rule
    )
    return {names[-1] for names in named}


def kinds() -> Iterator[str]:
    """Yield all kinds of statements."""
    for statement in alternatives("statement"):
        yield from (f"{statement} {each}" for each in alternatives(ACTIONS[statement])) if statement in ACTIONS else [statement]


def kind(text: str) -> str:
    """Return the kind of a statement."""
    tree = LANGUAGE.parse(blanked(text))
    if tree.data not in ACTIONS:
        return str(tree.data)
    known = alternatives(ACTIONS[tree.data])
    return next(f"{tree.data} {each.data}" for each in tree.children if isinstance(each, Tree) and each.data in known)


def tried(statements: Iterable[str]) -> set[str]:
    return {kind(each) for each in statements if not each.startswith("SELECT")}


def test_every_statement_of_the_grammar_is_tried_on_storage_that_fails() -> None:
    assert tried((*WRITES, *ALL, *READS, *LISTS, *CANNOT)) | UNTRIED.keys() == set(kinds())
