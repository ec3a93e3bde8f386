"""The functions that a text of somebody else's log calls, before anything of it is analysed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from streamtable.jvm.gateway import java_class

__all__ = ["CATALYST", "Nodes", "foreign", "of_the_machine", "parsed"]

Nodes: TypeAlias = Sequence[dict[str, Any]]
"""The nodes of a tree of Spark's, each before its children."""

CATALYST = "org.apache.spark.sql.catalyst"
_BUILTIN = ("builtin", "system.builtin")
_OF_THE_MACHINE = ("reflect", "java_method", "try_reflect", "from_protobuf", "to_protobuf")
"""Spark's own functions that run code, or read files."""

_OPTIONS_AT = {"from_xml": 2, "schema_of_xml": 1, "from_avro": 2, "schema_of_avro": 1}
"""Functions whose options may name a file, and after how many other arguments the options come."""

_FILES = ("rowvalidationxsdpath", "avroschemaurl", "avro.schema.url")


def parsed(spark: SparkSession, text: str) -> Nodes:
    """Parse an expression. Raises AnalysisException for what is none."""
    found: Nodes = json.loads(spark._jsparkSession.sessionState().sqlParser().parseExpression(text).toJSON())
    return found


def of_the_machine(nodes: Nodes) -> str | None:
    """Return the first function that runs code or reads files."""
    return next((name for at, name in _called(nodes) if _reaches(nodes, at, name.rpartition(".")[2].casefold())), None)


def foreign(spark: SparkSession, nodes: Nodes) -> str | None:
    """Return the first function that is none of Spark's own, which every session calls alike."""
    names = [name for _, name in _called(nodes)]
    named = names + ["IDENTIFIER" for each in nodes if each["class"].endswith("UnresolvedIdentifier")]
    return next((name for name in named if not _is_sparks(spark, name)), None)


def _called(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Yield the places and the names of the calls, including those that Spark has already computed."""
    for at, each in enumerate(nodes):
        if each["class"].endswith(".UnresolvedFunction"):
            yield at, each["nameParts"][1:-1].replace(", ", ".")


def _reaches(nodes: Nodes, at: int, name: str) -> bool:
    options = _arguments(nodes, at)[_OPTIONS_AT.get(name, len(nodes)) :]
    return name in _OF_THE_MACHINE or not all(_is_harmless(each) for each in options)


def _is_harmless(options: Nodes) -> bool:
    """Tell whether options are literals, none of which is the name of a file's option."""
    call, *rest = options
    if not call["class"].endswith(".UnresolvedFunction") or call["nameParts"].casefold() != "[map]":
        return False
    return all(each["class"].endswith(".Literal") and str(each.get("value")).casefold() not in _FILES for each in rest)


def _arguments(nodes: Nodes, at: int) -> list[Nodes]:
    """Return the trees below a node."""
    found, begin = list[Nodes](), at + 1
    for _ in range(nodes[at]["num-children"]):
        end, open_ = begin, 1
        while open_:
            open_ += nodes[end]["num-children"] - 1
            end += 1
        found.append(nodes[begin:end])
        begin = end
    return found


def _is_sparks(spark: SparkSession, function: str) -> bool:
    """Tell whether a function is one of Spark's own, which the session that applies calls too."""
    space, _, name = function.rpartition(".")
    identifier: Any = java_class(spark, f"{CATALYST}.FunctionIdentifier")(name)
    builtin: Any = java_class(spark, f"{CATALYST}.analysis.FunctionRegistry").builtin()
    return (not space or space.casefold() in _BUILTIN) and bool(builtin.functionExists(identifier))
