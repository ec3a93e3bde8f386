"""The names, queries, conditions and paths in a statement. A server's guard judges them before anything is looked up."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from streamtable.language.names import Condition, Name, Query
from streamtable.query.rewrite import rewritten

__all__ = ["KINDS", "mentioned"]

KINDS = ("names", "queries", "conditions", "new_places", "places", "servers")
_FIELDS = {"where": "conditions", "location": "new_places"}
_OF_CONNECTION = {"warehouse": "places", "token_file": "places", "remote": "servers"}


def mentioned(statement: Any) -> dict[str, list[Any]]:
    """Return all mentions in the statement, each kind in the order of the statement's fields."""
    found: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for kind, text in _parts(statement):
        found[kind].append(text)
    return found


def _parts(node: Any) -> Iterator[tuple[str, Any]]:
    match node:
        case Name(parts):
            yield "names", list(parts)
        case Query(text):
            yield "queries", rewritten(text)
        case Condition(text):
            yield "conditions", rewritten(text)
        case list() | tuple() | frozenset():
            for each in node:
                yield from _parts(each)
        case _ if is_dataclass(node):
            for each in fields(node):
                yield from _of_field(each.name, getattr(node, each.name))


def _of_field(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, str) and name in _FIELDS:
        yield _FIELDS[name], rewritten(value) if name == "where" else value
    elif isinstance(value, str) and name == "connection":
        with suppress(ValueError):  # who reads it next says what is wrong with it
            pairs = [pair.partition("=")[::2] for pair in shlex.split(value)]
            yield from ((_OF_CONNECTION[key], text) for key, text in pairs if key in _OF_CONNECTION)
    else:
        yield from _parts(value)
