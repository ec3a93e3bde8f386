"""Text to statements: the grammar is grammar/streamtable.lark, the read.py of each family makes dataclasses of its trees."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from lark import Lark, UnexpectedInput
from lark.exceptions import VisitError
from lark.tree import Meta

from streamtable.errors import StatementSyntaxError
from streamtable.language.comments import blanked
from streamtable.language.elsewhere import from_elsewhere
from streamtable.language.names import Name
from streamtable.language.openings import from_openings
from streamtable.language.pipelines import from_pipelines
from streamtable.language.queue.ast import QueueStatement
from streamtable.language.queue.read import QUEUES, QueueRules
from streamtable.language.replication.ast import ReplicationStatement
from streamtable.language.replication.read import REPLICATION
from streamtable.language.stream_table.ast import Statement
from streamtable.language.stream_table.in_words import MINIMUM_SECONDS
from streamtable.language.stream_table.read import STREAM_TABLES, StreamTableRules
from streamtable.language.stream_table.schedule import Schedule
from streamtable.language.subscribe.ast import SubscribeStatement
from streamtable.language.syntax_errors import explain
from streamtable.sql.literals import quote_string

AnyStatement: TypeAlias = Statement | SubscribeStatement | QueueStatement | ReplicationStatement

_GRAMMAR = "streamtable.lark"


_OF_THEIR_CHILDREN: Mapping[str, Callable[..., Any]] = {**STREAM_TABLES, **QUEUES, **REPLICATION}
"""Rules whose statement has the rule's children as its fields."""


class _ToStatement(StreamTableRules, QueueRules):
    """The rules of all families together."""

    def __default__(self, data: Any, children: list[Any], meta: Meta) -> Any:
        return _OF_THEIR_CHILDREN[data](*children)


@lru_cache(maxsize=2048)  # more than the tables of a catalog: each look of the console reads all their definitions
def parse(text: str, minimum_seconds: int = MINIMUM_SECONDS, stored: bool = False) -> AnyStatement:
    """Return the statement of `text`. A schedule by duration may not be shorter than `minimum_seconds`.

    `stored`: the text is the definition that a table holds, whose words have the meaning of the release that wrote it.

    Raises StatementSyntaxError for a text that does not parse, and InvalidStatement for an impossible statement.
    """
    statement: AnyStatement = _read(text, "statement", minimum_seconds, stored)
    return statement


def parse_schedule(text: str) -> Schedule:
    """Return the schedule of `text`, the part after SCHEDULE; a duration also without quotes. Raises as `parse` does."""
    schedule: Schedule = _read(quote_string(text) if text[:1].isdigit() else text, "schedule", MINIMUM_SECONDS)
    return schedule


def parse_name(text: str) -> Name:
    """Return the name of a table, written as in a statement; raises as `parse` does."""
    name: Name = _read(text, "name", MINIMUM_SECONDS)
    return name


def grammar() -> str:
    """Return the text of the grammar: from the package where it is installed, else from the checkout."""
    packaged = files("streamtable") / "grammar" / _GRAMMAR
    checkout = Path(__file__).parents[3] / "grammar" / _GRAMMAR
    return (packaged if packaged.is_file() else checkout).read_text(encoding="utf-8")


def keywords() -> list[str]:
    """Return the words of the grammar, sorted."""
    return sorted(set(re.findall(r"^_([A-Z]+)\.1:", grammar(), re.MULTILINE)))


def whole(text: str) -> str:
    """Return the text of a statement. Raises StatementSyntaxError for half of a surrogate pair, which is not a character."""
    half = re.search("[\ud800-\udfff]", text)
    if half:
        line = text.count("\n", 0, half.start()) + 1
        message = f"line {line}: the text has {half[0]!r}, half of a character, which cannot be stored"
        raise StatementSyntaxError(message, hint="write the whole character; text that was cut or decoded wrongly has such halves")
    return text


@lru_cache(maxsize=1)
def _language() -> Lark:
    return Lark(
        grammar(),
        parser="lalr",
        lexer="contextual",
        start=["statement", "schedule", "name"],
        propagate_positions=True,
        maybe_placeholders=True,
    )


def _read(text: str, start: str, minimum_seconds: int, stored: bool = False) -> Any:
    try:
        tree = _language().parse(blanked(whole(text)), start=start)
        return _ToStatement(text, minimum_seconds, stored).transform(tree)
    except UnexpectedInput as error:
        raise from_elsewhere(text, parse) or from_pipelines(text) or from_openings(text) or explain(text, error) from None
    except VisitError as error:  # lark's wrapping of what a method of the transformer raised
        raise error.orig_exc from None
