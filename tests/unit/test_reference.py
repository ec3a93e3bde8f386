"""The lists of the reference are what the program declares, and the syntax that people wrote is that of the grammar."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from manual import reference
from manual.syntax import Statement, keywords, statements, text

from streamtable import errors

DOCS = Path(__file__).parents[2] / "docs"
FAMILIES = ("statements", "subscribe", "queues", "replication")
BY_HAND = "".join((DOCS / "reference" / f"{family}.md").read_text(encoding="utf-8") for family in FAMILIES)
ALL = statements()
SPELLINGS = {"MATERIALIZED", "VIEW", "VIEWS", "POLICY", "INCREMENTAL"}  # other words for the same, which the page tells once
BLOCKS = re.findall(r"^```text\n(.*?)^```$", BY_HAND, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_that_is_generated_is_up_to_date(name: str) -> None:
    assert reference.path(name).read_text(encoding="utf-8") == reference.page(name), "write it again by ./run docs"


@pytest.mark.parametrize("error", errors.all_errors(), ids=lambda error: error.__name__)
def test_every_error_says_what_to_do(error: type[errors.StreamTableError]) -> None:
    assert vars(error)["remedy"] and vars(error)["condition"] and error.__doc__


@pytest.mark.parametrize("statement", ALL, ids=lambda statement: statement.title)
def test_the_syntax_on_the_page_of_a_statement_has_the_keywords_of_the_grammar(statement: Statement) -> None:
    said = {word for block in BLOCKS for words in syntax(block, statement.title) for word in words}
    used = Counter(part for each in ALL for part in each.parts)
    own = replace(statement, parts=tuple(part for part in statement.parts if used[part] == 1))  # others may be named only
    assert keywords(own) - said - SPELLINGS == set(), "the page lacks these"
    inner = [each for each in ALL if f"{each.title} ..." in text(statement)]  # as in EXPLAIN CREATE
    known = {word for each in (statement, *inner) for word in keywords(each)}
    assert said - known - {"AS", "NONE"} == set(), "the grammar lacks these"  # AS within an expression, NONE as a value


@pytest.mark.parametrize("word", sorted(SPELLINGS - {"VIEWS"}))
def test_a_spelling_is_told_beside_the_syntax(word: str) -> None:
    assert word in BY_HAND


def syntax(block: str, title: str) -> list[set[str]]:
    """Return the words in capitals of a statement in a block of syntax, which ends where another one begins."""
    return [
        set(re.findall(r"\b[A-Z]{2,}\b", re.sub(r"'[^']*'", "", part)))
        for part in re.split(r"\n(?=[A-Z])", block)
        if re.match(rf"{title}\b", re.sub(r"\[[^\]]*\] |\| \w+ ", "", part))
    ]


def test_a_keyword_that_is_missing_is_found() -> None:
    block = "SHOW | LIST THINGS [ALL] x ['AB' | CD]\nDROP THING y\n"
    assert syntax(block, "SHOW THINGS") == [{"SHOW", "LIST", "THINGS", "ALL", "CD"}]
    assert syntax(block, "DROP THING") == [{"DROP", "THING"}]
