"""The names, queries, conditions and paths in a statement. A server's guard judges them before anything is looked up."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any

from pyspark.sql import SparkSession

from streamtable.language.names import Condition, Name, Query
from streamtable.query.rejected import refuse_unreadable
from streamtable.query.rewrite import rewritten

__all__ = ["KINDS", "mentioned", "readable"]

KINDS = ("names", "queries", "conditions", "new_places", "places", "servers")
_FIELDS = {"where": "conditions", "location": "new_places"}
_OF_CONNECTION = {"warehouse": "places", "token_file": "places", "remote": "servers"}


def readable(spark: SparkSession, statement: Any) -> dict[str, list[Any]]:
    """Return all mentions. Raises InvalidQuery for a query or a condition that Spark cannot parse: nothing could judge it."""
    refuse_unreadable(spark, (said for _, said in _parts(statement) if isinstance(said, (Query, Condition))))
    return mentioned(statement)


def mentioned(statement: Any) -> dict[str, list[Any]]:
    """Return all mentions in the statement, each kind in the order of the statement's fields."""
    found: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for kind, said in _parts(statement):
        found[kind].append(rewritten(said.text) if isinstance(said, (Query, Condition)) else said)
    return found


def _parts(node: Any) -> Iterator[tuple[str, Any]]:
    match node:
        case Name(parts):
            yield "names", list(parts)
        case Query():
            yield "queries", node
        case Condition():
            yield "conditions", node
        case list() | tuple() | frozenset():
            for each in node:
                yield from _parts(each)
        case _ if is_dataclass(node):
            for each in fields(node):
                yield from _of_field(each.name, getattr(node, each.name))


def _of_field(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, str) and name in _FIELDS:
        yield _FIELDS[name], Condition(value) if name == "where" else value
    elif isinstance(value, str) and name == "connection":
        with suppress(ValueError):  # who reads it next says what is wrong with it
            pairs = [pair.partition("=")[::2] for pair in shlex.split(value)]
            yield from ((_OF_CONNECTION[key], text) for key, text in pairs if key in _OF_CONNECTION)
    else:
        yield from _parts(value)
