"""The functions that a text of somebody else's log calls, before anything of it is analysed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from streamtable.jvm.gateway import SHIM, java_class

__all__ = ["CATALYST", "Nodes", "foreign", "of_the_machine", "parsed"]

Nodes: TypeAlias = Sequence[dict[str, Any]]
"""The nodes of a tree of Spark's, each before its children."""

CATALYST = "org.apache.spark.sql.catalyst"
_BUILTIN = ("builtin", "system.builtin")


def parsed(spark: SparkSession, text: str) -> Nodes:
    """Parse an expression. Raises AnalysisException for what is none."""
    found: Nodes = json.loads(spark._jsparkSession.sessionState().sqlParser().parseExpression(text).toJSON())
    return found


def of_the_machine(spark: SparkSession, nodes: Nodes) -> str | None:
    """Return the first function that runs code or reads files: clients of a server may not use such a call either."""
    guard: Any = java_class(spark, f"{SHIM}.Guard")
    return next((name for name, count in _called(nodes) if guard.reaches(name.rpartition(".")[2], count)), None)


def foreign(spark: SparkSession, nodes: Nodes) -> str | None:
    """Return the first function that is none of Spark's own, which every session calls alike."""
    names = [name for name, _ in _called(nodes)]
    named = names + ["IDENTIFIER" for each in nodes if each["class"].endswith("UnresolvedIdentifier")]
    return next((name for name in named if not _is_sparks(spark, name)), None)


def _called(nodes: Nodes) -> Iterator[tuple[str, int]]:
    """Yield the names of the calls, with the numbers of their arguments, including those that Spark has already computed."""
    for each in nodes:
        if each["class"].endswith(".UnresolvedFunction"):
            yield each["nameParts"][1:-1].replace(", ", "."), int(each["num-children"])


def _is_sparks(spark: SparkSession, function: str) -> bool:
    """Tell whether a function is one of Spark's own, which the session that applies calls too."""
    space, _, name = function.rpartition(".")
    identifier: Any = java_class(spark, f"{CATALYST}.FunctionIdentifier")(name)
    builtin: Any = java_class(spark, f"{CATALYST}.analysis.FunctionRegistry").builtin()
    return (not space or space.casefold() in _BUILTIN) and bool(builtin.functionExists(identifier))
