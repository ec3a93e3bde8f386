"""A query as a relation: the delta rules of the stream tables compute its changes, and nothing is stored."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamtable.algebra.operators import WEIGHT, Aggregate, Constant, Expand, Filter, Generate, Project, Scan, UnionAll
from streamtable.algebra.render import render
from streamtable.algebra.trees import sources_of, walk
from streamtable.delta.bridge import interrupted
from streamtable.delta.tables import Version
from streamtable.differentiate import touched_groups
from streamtable.differentiate.deltas import Deltas, Shared
from streamtable.differentiate.rules import RULES, obstacle
from streamtable.errors import InvalidQuery, NotSupported, SourceChanged, StreamTableError
from streamtable.handles import namespace_of
from streamtable.refresh.checks import refuse_session_names
from streamtable.refresh.execute import pinned_query
from streamtable.refresh.prepare import Prepared, captured_settings, prepare, release
from streamtable.refresh.sources import Sources
from streamtable.refresh.workspace import Workspace
from streamtable.sessions import lend
from streamtable.sql.builder import column, select, subquery
from streamtable.sql.rewrite import moving_literal
from streamtable.sql.statements import Query
from streamtable.subscriptions.inputs import Input, Inputs
from streamtable.subscriptions.relation import TIME, ids, plain
from streamtable.subscriptions.times import Vector

__all__ = ["QueryRelation", "pinned"]

_STREAM_TABLE = "create a stream table of the query and subscribe to that"

_STATELESS = (Scan, Constant, Filter, Project, UnionAll, Expand, Generate)
"""Operators whose changes follow from those of their inputs alone: what was there before need not be kept any more."""

_RULES = {**RULES, Aggregate: touched_groups}


@dataclass(frozen=True)
class _Reading:
    """A query and the circumstances in which the subscription began."""

    spark: SparkSession
    query: Query
    namespace: tuple[str, ...]
    settings: dict[str, str]

    def prepare(self) -> Prepared:
        session = lend(self.spark, self.namespace, self.settings)
        try:
            return prepare(session, self.query)
        except InvalidQuery as error:
            refuse_session_names(self.spark, error)
            raise

    def fits(self, fingerprint: str, changed: Input | str, _: str = "") -> None:
        """Read the query again; the plan that was read first goes on as long as it means the same."""
        try:
            now = self.prepare()
        except InvalidQuery as error:
            if (cause := error.__cause__) and interrupted(cause):
                raise cause from None
            message = f"{changed} changed and the query does not fit any more: the subscription ends. {error.reason}"
            raise SourceChanged(message, hint="subscribe anew") from error
        release(now)
        if now.fingerprint != fingerprint:
            raise SourceChanged(f"{changed} changed what the query reads: the subscription ends", hint="subscribe anew")


class QueryRelation:
    """A query over Delta tables, as the caller's session reads it when the subscription begins."""

    together = 10  # each is a plan of its own, and Spark has to plan all of a batch at once

    def __init__(self, spark: SparkSession, query: Query) -> None:
        reading = _Reading(spark, query, namespace_of(spark), captured_settings(spark))
        self._settings = reading.settings
        self._prepared = reading.prepare()
        try:
            _check(self._prepared, query)
            self.query = replace(query, columns=self._prepared.reading.columns)
            reading = replace(reading, query=self.query)
            found = [Input.of(spark, path, _name(source.name)) for path, source in self._prepared.sources.items()]
            views = [parts for parts in map(_name, self._prepared.reading.views) if parts]
            fits = partial(reading.fits, self._prepared.fingerprint)
            texts = (*self._prepared.reading.views, *self._prepared.reading.functions)
            changed = partial(fits, f"the text of {' or '.join(texts)}") if texts else None
            stateless = all(isinstance(each, _STATELESS) for each in walk(self._prepared.tree))
            self.inputs = Inputs(spark, found, fits, views, changed, changes_need_contents=not stateless)
        except StreamTableError:
            self.close()
            raise
        self.schema: StructType = plain(self._prepared.frame.schema)

    def close(self) -> None:
        release(self._prepared)

    @property
    def identity(self) -> Hashable:
        names = tuple(each.name for each in self.schema)
        return (self.inputs.opened, names, self._prepared.fingerprint, tuple(self._settings.items()))

    def snapshot(self, time: int) -> DataFrame:
        rows = pinned_query(self._prepared, self._at(self.inputs.times.versions(time)))
        return self._timed(_signed(rows.toDF(*ids(self.schema)), 1), time)

    def steps(self, after: int, latest: int) -> Iterator[int]:
        """Take one commit after the other, by the order of their timestamps; those that change no row go along with the next."""
        moved = False
        for step in self.inputs.commits(after, latest):
            moved = not step.events
            if step.events:
                yield step.time
        if moved:
            yield latest

    @contextmanager
    def changes(self, after: int, upto: int) -> Iterator[DataFrame]:
        times = self.inputs.times
        with Workspace(self._prepared.session) as workspace:
            delta = self._delta(workspace, self._at(times.versions(after)), self._at(times.versions(upto)))
            yield self._timed(delta.toDF(*ids(self.schema), WEIGHT.id), upto)

    def _delta(self, workspace: Workspace, old: dict[str, Version], new: dict[str, Version]) -> DataFrame:
        prepared = self._prepared
        if obstacle(prepared.tree):  # an operator without a rule: all of the new contents less all of the old
            return _signed(pinned_query(prepared, new), 1).unionAll(_signed(pinned_query(prepared, old), -1))
        changed = frozenset(source for source in sources_of(prepared.tree) if old[source.path] != new[source.path])
        deltas = Deltas(changed, {}, _RULES)
        root = deltas.of(prepared.tree)
        if root is None:
            return _signed(pinned_query(prepared, new).limit(0), 1)
        sources = Sources(prepared, workspace, new, old)
        for each in deltas.steps:
            assert isinstance(each, Shared), "no aggregate is stored"
            workspace.name(each.name, workspace.keep(workspace.query(render(each.tree, sources))))
        items = [column(c.id) for c in (*prepared.tree.columns, WEIGHT)]
        return workspace.query(select(items, subquery(render(root, sources), "delta")))

    def _at(self, vector: Vector) -> dict[str, Version]:
        return {path: Version(path, version) for path, version in zip(self._prepared.paths, vector, strict=True)}

    def _timed(self, rows: DataFrame, time: int) -> DataFrame:
        return rows.withColumn(TIME, F.lit(str(time)).cast(self.inputs.times.type))


def pinned(spark: SparkSession, query: Query) -> Query:
    """Return a query with the columns that its tables have now: it is to mean the same later."""
    relation = QueryRelation(spark, query)
    relation.close()
    return relation.query


def _signed(rows: DataFrame, weight: int) -> DataFrame:
    return rows.withColumn(WEIGHT.id, F.lit(weight).cast("bigint"))


def _check(prepared: Prepared, query: Query) -> None:
    """Raise what keeps the query from having a history."""
    if literal := moving_literal(query.text):
        raise InvalidQuery(f"{literal} is another time each time that the query is read", hint=_STREAM_TABLE)
    if prepared.reading.clock:
        raise NotSupported("the query reads the clock, which is no table with versions", hint=_STREAM_TABLE)
    if unversioned := next(iter(prepared.reading.unversioned), None):
        raise NotSupported(
            f"the query reads {unversioned}, which has no history", hint="read Delta tables, by repeatable functions"
        )


def _name(name: str | None) -> tuple[str, ...]:
    """Split a table's full name; one with dots in its parts cannot be told apart, and is known by its path alone."""
    parts = tuple(name.split(".")) if name else ()
    return parts if len(parts) == 3 else ()
