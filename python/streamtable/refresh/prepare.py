"""The query of a stream table, read in a session of its own with the settings that were captured at CREATE."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streamtable.algebra.distinct import merge_distincts
from streamtable.algebra.normalise import normalise
from streamtable.algebra.operators import Operator, Source
from streamtable.algebra.reading import Reading, read_plan
from streamtable.delta.bridge import SHIM, frame_of, java_class
from streamtable.differentiate.rules import Finding, obstacle
from streamtable.errors import InvalidQuery, near_names
from streamtable.sessions import give_back
from streamtable.sql.rewrite import rewritten
from streamtable.sql.spellings import instead
from streamtable.sql.statements import Query
from streamtable.tracebacks import words_of

__all__ = ["CAPTURED", "Prepared", "captured_settings", "prepare", "release"]

CAPTURED = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.storeAssignmentPolicy",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.legacy.timeParserPolicy",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.groupByOrdinal",
    "spark.sql.groupByAliases",
    "spark.sql.orderByOrdinal",
    "spark.sql.legacy.sizeOfNull",
)
"""The settings that change what a query means, and that every definition holds."""

_CHANGING = re.compile(
    r"spark\.sql\.("
    r"legacy\..*"  # what an older Spark did
    r"|(ansi|function|functionResolution|collation|tvf)\..*"  # names, quotes, types and functions
    # How text is read; not the limits of the parser's memory.
    r"|parser\.(escapedStringLiterals|quotedRegexColumnNames|singleCharacterPipeOperator\.enabled)"
    r"|operatorPipeSyntaxEnabled|allowNamedFunctionArguments|lateralColumnAlias\.enableImplicitResolution"
    r"|cteRecursionLevelLimit|cteRecursionRowLimit|pivotMaxValues|transposeMaxValues|crossJoin\.enabled"  # what is still an answer
    r"|timestampType|charAsVarchar|readSideCharPadding|preserveCharVarcharTypeInfo"  # what a type is
    r"|chunkBase64String\.enabled|icu\.caseMappings\.enabled"
    r")"
)
"""The settings that change it as well and that few set: a definition holds those that are set. No tuning is among them."""

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Prepared:
    """A query as Spark analysed it now: `frame` is lazy, `tree` normalised; the root's columns are the table's, in order."""

    session: SparkSession
    frame: DataFrame
    reading: Reading
    tree: Operator
    fingerprint: str
    plan: str
    """What the reader of plans wrote."""
    rejected: Finding | None = None
    """Why Spark cannot plan the delta, where a dry run or a refresh found that out."""

    @cached_property
    def obstacle(self) -> Finding | None:
        """Return why the query cannot be maintained incrementally, or None when it can."""
        return self.rejected or obstacle(self.tree)

    def columns_of(self, path: str) -> frozenset[str]:
        """Return the columns of a source that the query mentions, by name or in `*`, whether its result depends on them or not."""
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
        return {source.path: source for source in self.reading.sources}

    @property
    def names(self) -> dict[str, str]:
        """Return the names of the tables that the query reads, by path."""
        return {path: str(source) for path, source in self.sources.items()}


def captured_settings(spark: SparkSession) -> dict[str, str]:
    """Read the current values of the settings that change what a query means, defaults as well: those of another session differ."""
    modified = {key: value for key, value in sorted(_set_in(spark).items()) if _CHANGING.fullmatch(key)}
    unusual = {key: value for key, value in modified.items() if key not in CAPTURED and spark.conf.isModifiable(key)}
    return {key: str(spark.conf.get(key)) for key in CAPTURED} | unusual


def _set_in(spark: SparkSession) -> dict[str, str]:
    """Return what is set in a session in one piece: PySpark's own asks the JVM three times for each of some sixty settings."""
    mapper = java_class(spark, "com.fasterxml.jackson.databind.ObjectMapper")()
    found: dict[str, str] = json.loads(mapper.writeValueAsString(spark._jsparkSession.conf().getAllAsJava()))
    return found


def prepare(session: SparkSession, query: Query) -> Prepared:
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
        text = _moved(words_of(error), query)
        rejected = InvalidQuery(f"Spark rejects the query: {text}", hint=_nearest_table(session, text) or instead(query.text, text))
        give_back(session)
        raise rejected from error
    reading = replace(read_plan(plan, name), columns=pins.columns())
    merged = merge_distincts(reading.tree)
    # Tables that were made when each DISTINCT was stored hold other states: they are another plan.
    fingerprint = _fingerprint(plan) if merged == reading.tree else _fingerprint(plan, "distincts merged")
    return Prepared(session, frame, reading, normalise(merged), fingerprint, plan)


def _check_names(gone: Sequence[Json]) -> None:
    """Refuse a query whose columns, or the fields of its structs, are not what they were when it was written."""
    for each in gone:
        column, now = each["column"], each["now"]
        if was := each.get("was"):
            reason = f"the query reads the struct {column} as a whole, whose fields are in other places now: {now[0]}, before {was}"
            raise InvalidQuery(reason, hint="write the query again: ALTER STREAM TABLE ... AS")
        raise InvalidQuery(
            f"the column {column} that the query reads is not there any more, among {', '.join(now)}.{near_names(column, now)}",
            hint="give the column its name again, or write a query that fits: ALTER STREAM TABLE ... AS",
        )


def _moved(message: str, query: Query) -> str:
    """Give Spark's positions, which count from the start of the query, as positions in the whole statement."""

    def moved(found: re.Match[str]) -> str:
        line, column = int(found[1]), int(found[2])
        if line == 1:
            column += query.column - 1
        return f"line {line + query.line - 1}, pos {column}"

    return re.sub(r"line (\d+),? pos(?:ition)? (\d+)", moved, message)


def _nearest_table(session: SparkSession, message: str) -> str | None:
    """Suggest tables for a name that Spark does not find; for columns it suggests some itself."""
    missing = re.search(r"The table or view (\S+) cannot be found", message)
    if missing is None:
        return None
    wanted = missing[1].replace("`", "").split(".")[-1]
    known = [row["tableName"] for row in session.sql("SHOW TABLES").collect()]
    return near_names(wanted, known).strip() or None


_PLACE = ("path", "table")
"""Where a table is and what it is called: a plan knows it by its id."""


def _fingerprint(plan: str, form: str = "") -> str:
    """Identify a plan up to the numbering of its attributes, to columns of its tables that it does not use, and to their places."""
    document = json.loads(plan)
    sources = document["sources"]
    ids = [each["table_id"] for each in sources]
    # Copies of a table's files share its id: which of them stands where is told by their places, in the order of the plan.
    document["sources"] = ids if len(set(ids)) == len({each["path"] for each in sources}) else sources
    used = json.dumps(_without(document, set(_used(document["plan"], wanted=True))), separators=(",", ":"))
    numbers: dict[str, str] = {}
    renamed = re.sub(r'"c\d+"', lambda found: numbers.setdefault(found[0], f'"a{len(numbers)}"'), used)
    stable = re.sub(r'"(number|leaf)":\d+,?|"loop":"\w+",?', "", renamed)
    return hashlib.sha256((json.dumps(stable) + form).encode()).hexdigest()[:16]


def _nodes(node: Json) -> Iterator[Json]:
    yield node
    for child in node.get("children", ()):
        yield from _nodes(child)


_BY_PLACE = frozenset({"Union", "Intersect", "Except", "Distinct", "Recursion"})
"""Operators that know the columns of their inputs by their places, and so use all of them."""


def _used(node: Json, wanted: bool) -> Iterator[str]:
    """Yield the ids that a plan mentions, other than by handing them on from below; with `wanted`, its own output as well."""
    mentioned = {key: value for key, value in node.items() if key != "children" and (wanted or key != "output")}
    yield from re.findall(r'"(c\d+)"', json.dumps(mentioned))
    for child in node.get("children", ()):
        yield from _used(child, node["op"] in _BY_PLACE or node.get("unknown", False))


def _without(node: Any, used: set[str]) -> Any:
    """Leave out the columns that are only handed on."""
    match node:
        case {"op": _, "output": output}:
            kept = [each for each in output if each["id"] in used]
            # A struct of which the query reads fields alone is known by these.
            places = node.get("stored", {})
            stored = {name: places[name] for each in kept if "parts" not in each and (name := each["name"]) in places}
            rest = {key: _without(value, used) for key, value in node.items() if key not in ("output", "stored", *_PLACE)}
            return {**rest, "output": _without(kept, used), "stored": stored}
        case {"parts": parts, **column}:
            return _without({**column, "type": parts}, used)
        case dict():
            return {key: _without(value, used) for key, value in node.items()}
        case list():
            return [_without(each, used) for each in node]
        case _:
            return node


def release(prepared: Prepared) -> None:
    """Forget the expressions that were registered for the query, and give its session back."""
    registry = java_class(prepared.session, f"{SHIM}.ExpressionRegistry")
    registry.release(prepared.reading.id)
    give_back(prepared.session)
