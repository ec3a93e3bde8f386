"""The user's query as Spark analyses it, in a session of its own with the settings that were captured at CREATE."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from streamtable.algebra.normalise import normalise
from streamtable.algebra.operators import Operator
from streamtable.algebra.optional import OptionalState
from streamtable.algebra.reading import BoundQuery, read_plan
from streamtable.algebra.sources import Source
from streamtable.differentiate.registry import RuleFinding, obstacle
from streamtable.differentiate.visible import uncounted
from streamtable.errors import InvalidQuery, InvalidStatement, near_names
from streamtable.jvm.gateway import SHIM, frame_of, java_class
from streamtable.language.names import Query
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.state import StateMode
from streamtable.query.expectations import Judged, form_of, judge, refuse_volatile
from streamtable.query.fingerprint import Json, fingerprint_of, used_columns
from streamtable.query.frozen import Frozen, freeze, refuse_moving
from streamtable.query.rejected import rejection
from streamtable.query.rewrite import rewritten
from streamtable.query.states import Decided, Plan, stored
from streamtable.sessions.internal import give_back
from streamtable.sql.literals import quote_name

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
    states: tuple[tuple[OptionalState, Decided], ...] = ()
    """The optional states of the query, and whether they are stored."""
    judged: Judged | None = None
    """The rows before expectations drop some. `frame` and `tree` are the rows that stay. None without expectations."""
    frozen: Frozen | None = None
    """The rows that stay as they are, whatever the query gives. `frame` and `tree` are the query outside them."""
    trusted: bool = False
    """The contents may differ from the query: they are rows of BACKFILL ... TRUSTED. So they are no states of its aggregates."""

    @cached_property
    def obstacle(self) -> RuleFinding | None:
        """Return why the query cannot be maintained incrementally, or None when it can."""
        return self.rejected or obstacle(self.tree, stored=self.judged is None)

    def outside(self, rows: DataFrame) -> DataFrame:
        """Return those of the table's rows that are the query's: all but the frozen ones."""
        return self.frozen.outside(rows) if self.frozen else rows

    def columns_of(self, path: str) -> frozenset[str]:
        """Return the columns of a source that the query mentions, by name or in `*`, even those that its result does not need."""
        return frozenset(_mentioned(self.plan).get(path, ()))

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the tables that the query reads, each once."""
        return tuple(self.sources)

    @property
    def sources(self) -> dict[str, Source]:
        """Return the tables that the query reads, by path."""
        return {source.path: source for source in self.bound.sources}

    @property
    def named_once(self) -> bool:
        """Tell whether each table has one name in the query. Of several, the definition keeps one."""
        return len({(source.path, str(source)) for source in self.bound.sources}) == len(self.sources)

    @property
    def source_names(self) -> dict[str, str]:
        """Return the names of the tables that the query reads, by path."""
        return {path: str(source) for path, source in self.sources.items()}


def analyse(
    session: SparkSession,
    query: Query,
    of: CreateStreamTable | None = None,
    before: Plan | None = None,
    trusted: bool = False,
) -> AnalysedQuery:
    """Let Spark analyse `query` and read its plan. Raises InvalidQuery with Spark's own message.

    `of` is the statement whose expectations, frozen rows and STATE are part of the plan. `before` is the plan of the table's last
    refresh. `trusted`: the contents are rows that nobody compared with the query; see AnalysedQuery.
    """
    expectations = of.expectations if of is not None else ()
    reader, name = java_class(session, f"{SHIM}.PlanReader"), uuid.uuid4().hex
    with _freed_if_it_fails(session, name):
        try:
            pins = _pinned(session, query)
            _check_names(json.loads(pins.gone()))
            frame = frame_of(session, pins.frame())
            if frozen := freeze(frame, of) if of is not None else None:
                frame = frozen.outside(frozen.whole)
            whole, frame = judge(frame, of) if of is not None and expectations else (frame, frame)
            plan = reader.read(whole._jdf, name)
            bound = replace(read_plan(plan, name), columns=pins.columns(), texts=pins.texts(), used=_listed(_mentioned(plan)))
            if expectations:
                refuse_volatile(bound.tree, expectations)
            if frozen:
                refuse_moving(bound.tree, frozen)
        except InvalidStatement:
            raise
        except PySparkException as error:
            raise rejection(session, query, error) from error
        judging, mode = form_of(expectations), of.state if of is not None else StateMode.ALL
        formed, fingerprint = stored(session, bound.tree, mode, before, lambda form: fingerprint_of(plan, form + judging))
        tree = normalise(formed.tree)
    judged = Judged(whole, tree, expectations) if expectations else None
    kept = judged.kept if judged else tree if trusted else uncounted(tree)
    return AnalysedQuery(session, frame, bound, kept, fingerprint, plan, None, formed.states, judged, frozen, trusted)


@contextmanager
def _freed_if_it_fails(session: SparkSession, reading: str) -> Iterator[None]:
    """Free the registered expressions and the session of an analysis that fails."""
    try:
        yield
    except BaseException as error:
        _forget(session, reading)
        if isinstance(error, RecursionError):
            raise _too_deep() from error
        raise


def _pinned(session: SparkSession, query: Query) -> Any:
    """Let Spark analyse the query with its tables' columns as they were.

    A view that was written again has columns of its own time: the tables in its text are read as they are then.
    """
    pins, text = java_class(session, f"{SHIM}.Pins"), rewritten(query.text)
    try:
        return pins.read(session._jsparkSession, text, query.columns)
    except PySparkException as error:
        if error.getCondition() != "INCOMPATIBLE_VIEW_SCHEMA_CHANGE":
            raise
        own = {key: columns for key, columns in json.loads(query.columns).items() if key.startswith("`#")}
        return pins.read(session._jsparkSession, text, json.dumps(own))


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


def _too_deep() -> InvalidQuery:
    return InvalidQuery("the query is nested too deeply", hint="make a stream table of a part of it, and read that")


def _mentioned(plan: str) -> dict[str, set[str]]:
    """Return the columns of each table, by its path, that a plan mentions."""
    document = json.loads(plan)
    mentioned, found = set(used_columns(document["plan"], wanted=True)), {each["path"]: set[str]() for each in document["sources"]}
    for node in _nodes(document["plan"]):
        if node.get("path") in found:  # else it is a constant: a table at a fixed version
            found[node["path"]] |= {each["name"] for each in node["output"] if each["id"] in mentioned}
    return found


def _listed(columns: Mapping[str, set[str]]) -> str:
    """Return the columns of each table for people, in the order of the tables."""
    return json.dumps([", ".join(n if n.isidentifier() else quote_name(n) for n in sorted(names)) for names in columns.values()])


def _nodes(node: Json) -> Iterator[Json]:
    yield node
    for child in node.get("children", ()):
        yield from _nodes(child)


def release(analysed: AnalysedQuery) -> None:
    """Free the query's registered expressions, and give its session back."""
    _forget(analysed.session, analysed.bound.id)


def _forget(session: SparkSession, reading: str) -> None:
    java_class(session, f"{SHIM}.ExpressionRegistry").release(reading)
    give_back(session)
