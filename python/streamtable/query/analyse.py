"""The user's query as Spark analyses it, in a session of its own with the settings that were captured at CREATE."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streamtable.algebra.distinct import merge_distincts
from streamtable.algebra.distinct_calls import store_distinct_values
from streamtable.algebra.normalise import normalise
from streamtable.algebra.operators import Operator
from streamtable.algebra.partners import store_partners
from streamtable.algebra.reading import BoundQuery, read_plan
from streamtable.algebra.sources import Source
from streamtable.differentiate.registry import RuleFinding, obstacle
from streamtable.errors import InvalidQuery, message_of, near_names
from streamtable.jvm.gateway import SHIM, frame_of, java_class
from streamtable.language.names import Query
from streamtable.query.fingerprint import Json, _used, fingerprint_of
from streamtable.query.rewrite import rewritten
from streamtable.query.spellings import instead
from streamtable.sessions.internal import give_back

__all__ = ["AnalysedQuery", "analyse", "release"]


@dataclass(frozen=True)
class AnalysedQuery:
    """A query after Spark's analysis: `frame` is lazy, `tree` is normalised. The root has the table's columns, in order."""

    session: SparkSession
    frame: DataFrame
    bound: BoundQuery
    tree: Operator
    fingerprint: str
    plan: str
    """The JSON of the shim's PlanReader."""
    rejected: RuleFinding | None = None
    """Why Spark cannot plan the delta, as a dry run or a refresh found; else None."""

    @cached_property
    def obstacle(self) -> RuleFinding | None:
        """Return why the query cannot be maintained incrementally, or None when it can."""
        return self.rejected or obstacle(self.tree)

    def columns_of(self, path: str) -> frozenset[str]:
        """Return the columns of a source that the query mentions, by name or in `*`, even those that its result does not need."""
        plan = json.loads(self.plan)["plan"]
        mentioned = set(_used(plan, wanted=True))
        return frozenset(
            each["name"] for node in _nodes(plan) if node.get("path") == path for each in node["output"] if each["id"] in mentioned
        )

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the tables that the query reads, each once."""
        return tuple(self.sources)

    @property
    def sources(self) -> dict[str, Source]:
        """Return the tables that the query reads, by path."""
        return {source.path: source for source in self.bound.sources}

    @property
    def names(self) -> dict[str, str]:
        """Return the names of the tables that the query reads, by path."""
        return {path: str(source) for path, source in self.sources.items()}


def analyse(session: SparkSession, query: Query) -> AnalysedQuery:
    """Let Spark analyse `query` and read its plan. Raises InvalidQuery with Spark's own message."""
    reader, name = java_class(session, f"{SHIM}.PlanReader"), uuid.uuid4().hex
    try:
        pins = java_class(session, f"{SHIM}.Pins").read(session._jsparkSession, rewritten(query.text), query.columns)
        _check_names(json.loads(pins.gone()))
        frame = frame_of(session, pins.frame())
        plan = reader.read(frame._jdf, name)
    except InvalidQuery:
        give_back(session)
        raise
    except PySparkException as error:
        text = _moved(message_of(error), query)
        rejected = InvalidQuery(f"Spark rejects the query: {text}", hint=_nearest_table(session, text) or instead(query.text, text))
        give_back(session)
        raise rejected from error
    bound = replace(read_plan(plan, name), columns=pins.columns())
    tree, forms = _formed(bound.tree)
    return AnalysedQuery(session, frame, bound, normalise(tree), fingerprint_of(plan, forms), plan)


_FORMS = (("values stored", store_distinct_values), ("partners stored", store_partners), ("distincts merged", merge_distincts))
"""The rewritings that decide which states are stored, by name. Tables of earlier releases may store other states."""


def _formed(tree: Operator) -> tuple[Operator, str]:
    """Return the tree whose states are stored, and the names of the forms that changed it."""
    names = []
    for name, form in _FORMS:
        formed = form(tree)
        names += [name] if formed != tree else []
        tree = formed
    return tree, ", ".join(names)


def _check_names(gone: Sequence[Json]) -> None:
    """Refuse a query whose columns, or whose structs' fields, differ from those at CREATE."""
    for each in gone:
        column, now = each["column"], each["now"]
        if was := each.get("was"):
            reason = (
                f"the query reads the struct {column} as a whole, which lacks fields that it had: it was {was}, and is {now[0]}"
            )
            raise InvalidQuery(reason, hint="write the query again: ALTER STREAM TABLE ... AS")
        raise InvalidQuery(
            f"the column {column} that the query reads is not there any more, among {', '.join(now)}.{near_names(column, now)}",
            hint="give the column its name again, or write a query that fits: ALTER STREAM TABLE ... AS",
        )


def _moved(message: str, query: Query) -> str:
    """Translate Spark's positions in the query into positions in the whole statement."""

    def moved(found: re.Match[str]) -> str:
        line, column = int(found[1]), int(found[2])
        if line == 1:
            column += query.column - 1
        return f"line {line + query.line - 1}, pos {column}"

    return re.sub(r"line (\d+),? pos(?:ition)? (\d+)", moved, message)


def _nearest_table(session: SparkSession, message: str) -> str | None:
    """Suggest tables for a name that Spark does not find. Spark itself suggests columns."""
    missing = re.search(r"The table or view (\S+) cannot be found", message)
    if missing is None:
        return None
    wanted = missing[1].replace("`", "").split(".")[-1]
    known = [row["tableName"] for row in session.sql("SHOW TABLES").collect()]
    return near_names(wanted, known).strip() or None


def _nodes(node: Json) -> Iterator[Json]:
    yield node
    for child in node.get("children", ()):
        yield from _nodes(child)


def release(analysed: AnalysedQuery) -> None:
    """Free the query's registered expressions, and give its session back."""
    registry = java_class(analysed.session, f"{SHIM}.ExpressionRegistry")
    registry.release(analysed.bound.id)
    give_back(analysed.session)
