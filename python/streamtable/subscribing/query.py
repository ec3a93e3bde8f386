"""A query as a relation: the delta rules of stream tables compute its changes, without stored states."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import Aggregate, Constant, Expand, Filter, Generate, Project, Scan, UnionAll
from streamtable.algebra.reading import BoundQuery
from streamtable.algebra.render import render
from streamtable.algebra.trees import sources_of, walk
from streamtable.delta.column_ids import NamesInFiles
from streamtable.delta.tables import Version
from streamtable.differentiate import affected_groups
from streamtable.differentiate.deltas import Deltas, Shared
from streamtable.differentiate.registry import RULES, obstacle
from streamtable.differentiate.undecided import left_open
from streamtable.engine.pinned import pinned_query
from streamtable.engine.sources import Sources
from streamtable.engine.workspace import Workspace
from streamtable.errors import InvalidQuery, NotSupported, SourceChanged, StreamTableError
from streamtable.jvm.failures import interrupted
from streamtable.jvm.handles import namespace_of
from streamtable.language.names import UNREAD, Query
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.query.checks import refuse_hidden_names, refuse_session_names
from streamtable.query.rewrite import moving_literal
from streamtable.sessions.captured import captured_settings
from streamtable.sessions.internal import lend
from streamtable.sql.builder import column, select, subquery
from streamtable.subscribing.inputs import Input, Inputs
from streamtable.subscribing.relation import TIME, ids, plain, refuse_other_columns
from streamtable.subscribing.times import Versions

__all__ = ["TEXTS", "QueryRelation"]

_ANEW = "give the source what it had, or subscribe anew; a queue is made anew: DROP QUEUE, then CREATE QUEUE"

TEXTS = "texts"
"""The digests of views and functions, beside the columns of tables, whose names are in backquotes."""

_STREAM_TABLE = "create a stream table of the query and subscribe to that"

_STATELESS = (Scan, Constant, Filter, Project, UnionAll, Expand, Generate)
"""Operators whose changes follow from the changes of their inputs alone, so that older versions are not needed."""

_RULES = {**RULES, Aggregate: affected_groups}


@dataclass(frozen=True)
class _Reader:
    """A query, with the context at the begin of the subscription."""

    spark: SparkSession
    query: Query
    namespace: tuple[str, ...]
    settings: dict[str, str]

    def analyse(self) -> AnalysedQuery:
        session = lend(self.spark, self.namespace, self.settings)
        try:
            return analyse(session, self.query)
        except InvalidQuery as error:
            refuse_session_names(self.spark, error)
            raise

    def fits(self, fingerprint: str, changed: Input | str, _: str = "") -> None:
        """Analyse the query again. The first plan stays in use as long as its meaning is the same."""
        try:
            now = self.analyse()
        except InvalidQuery as error:
            if (cause := error.__cause__) and interrupted(cause):
                raise cause from None
            message = f"{changed} changed and the query does not fit any more: the subscription ends. {error.reason}"
            raise SourceChanged(message, hint="subscribe anew") from error
        release(now)
        if now.fingerprint != fingerprint:
            raise SourceChanged(f"{changed} changed what the query reads: the subscription ends", hint="subscribe anew")


class QueryRelation:
    """A query over Delta tables, as the caller's session reads it at the begin of the subscription."""

    together = 10  # each is a plan of its own, and Spark has to plan all of a batch at once

    def __init__(self, spark: SparkSession, query: Query) -> None:
        if query.columns == UNREAD:
            refuse_hidden_names(spark, query)
        reader = _Reader(spark, query, namespace_of(spark), captured_settings(spark))
        self._settings = reader.settings
        try:
            self._analysed = reader.analyse()
        except InvalidQuery as error:
            if query.columns == UNREAD:
                raise
            raise SourceChanged(f"what is subscribed to cannot be read any more: {error.reason}", hint=_ANEW) from error
        try:
            _check(self._analysed, query)
            _check_texts(query, self._analysed.bound)
            self.query = replace(query, columns=self.read_as())
            reader = replace(reader, query=self.query)
            found = [Input.of(spark, path, _name(source.name)) for path, source in self._analysed.sources.items()]
            views = [parts for parts in map(_name, self._analysed.bound.views) if parts]
            fits = partial(reader.fits, self._analysed.fingerprint)
            texts = (*self._analysed.bound.views, *self._analysed.bound.functions)
            changed = partial(fits, f"the text of {' or '.join(texts)}") if texts else None
            stateless = all(isinstance(each, _STATELESS) for each in walk(self._analysed.tree))
            self._names = tuple(NamesInFiles(spark, each.path, self._read(each.path)) for each in found)
            self.inputs = Inputs(spark, found, fits, views, changed, changes_need_contents=not stateless)
        except StreamTableError:
            self.close()
            raise
        self.schema: StructType = plain(self._analysed.frame.schema)

    def _read(self, path: str) -> set[str]:
        """Return the columns of a table that the query reads."""
        scans = (each for each in walk(self._analysed.tree) if isinstance(each, Scan) and each.source.path == path)
        return {column.name for scan in scans for column in scan.columns}

    def close(self) -> None:
        release(self._analysed)

    def read_as(self, follows: bool = False) -> str:
        """Return the texts of which the query is made and, unless it `follows` its tables, their columns: for `Query.columns`."""
        bound = self._analysed.bound
        columns = {} if follows else json.loads(bound.columns)
        return json.dumps({**columns, TEXTS: json.loads(bound.texts)})

    @property
    def identity(self) -> Hashable:
        names = tuple(each.name for each in self.schema)
        return (self.inputs.opened, names, self._analysed.fingerprint, tuple(self._settings.items()))

    def snapshot(self, time: int) -> DataFrame:
        rows = pinned_query(self._analysed, self._at(self.inputs.times.versions(time)))
        self._refuse_other_columns(time)
        return self._timed(_signed(rows.toDF(*ids(self.schema)), 1), time)

    def steps(self, after: int, latest: int) -> Iterator[int]:
        """Yield one time per commit, in the order of timestamps. Commits without changed rows are joined with the next one."""
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
        with Workspace(self._analysed.session) as workspace:
            delta = self._delta(workspace, self._at(times.versions(after)), self._at(times.versions(upto)))
            self._refuse_other_columns(after)  # the frame has its columns by now
            yield self._timed(delta.toDF(*ids(self.schema), WEIGHT.id), upto)

    def _refuse_other_columns(self, since: int) -> None:
        for table, names, version in zip(self.inputs.opened, self._names, self.inputs.times.versions(since), strict=True):
            refuse_other_columns(table, names, version)

    def _delta(self, workspace: Workspace, old: dict[str, Version], new: dict[str, Version]) -> DataFrame:
        analysed = self._analysed
        if obstacle(analysed.tree, stored=False):  # an operator without a rule: all of the new contents less all of the old
            return _signed(pinned_query(analysed, new), 1).unionAll(_signed(pinned_query(analysed, old), -1))
        changed = frozenset(source for source in sources_of(analysed.tree) if old[source.path] != new[source.path])
        deltas = Deltas(changed, {}, _RULES)
        root = deltas.of(analysed.tree)
        if root is None:
            return _signed(pinned_query(analysed, new).limit(0), 1)
        sources = Sources(analysed, workspace, new, old)
        for each in deltas.steps:
            assert isinstance(each, Shared), "no aggregate is stored"
            workspace.name(each.name, workspace.persist(workspace.query(render(each.tree, sources))))
        items = [column(c.id) for c in (*analysed.tree.columns, WEIGHT)]
        return workspace.query(select(items, subquery(render(root, sources), "delta")))

    def _at(self, vector: Versions) -> dict[str, Version]:
        return {path: Version(path, version) for path, version in zip(self._analysed.paths, vector, strict=True)}

    def _timed(self, rows: DataFrame, time: int) -> DataFrame:
        return rows.withColumn(TIME, F.lit(str(time)).cast(self.inputs.times.type))


def _signed(rows: DataFrame, weight: int) -> DataFrame:
    return rows.withColumn(WEIGHT.id, F.lit(weight).cast("bigint"))


def _check(analysed: AnalysedQuery, query: Query) -> None:
    """Raise an error for a query without a history."""
    if literal := moving_literal(query.text):
        raise InvalidQuery(f"{literal} is another time each time that the query is read", hint=_STREAM_TABLE)
    if analysed.bound.clock:
        raise NotSupported("the query reads the clock, which is no table with versions", hint=_STREAM_TABLE)
    if unversioned := next(iter(analysed.bound.unversioned), None):
        raise NotSupported(
            f"the query reads {unversioned}, which has no history", hint="read Delta tables, by repeatable functions"
        )
    if reason := left_open(analysed.tree):
        raise NotSupported(f"the rows that go could be others than those that came: {reason}", hint=_STREAM_TABLE)


def _check_texts(query: Query, bound: BoundQuery) -> None:
    """Raise SourceChanged when a view or a function has another text than when the query was read first."""
    texts = json.loads(bound.texts)
    known = json.loads(query.columns).get(TEXTS, texts)  # a queue of an earlier release has none
    if other := sorted(name for name in known.keys() | texts.keys() if known.get(name) != texts.get(name)):
        message = f"the {' and the '.join(other)} got another text, whose changes do not go on from those of the text before"
        raise SourceChanged(message, hint=_ANEW)


def _name(name: str | None) -> tuple[str, ...]:
    """Split a table's full name. A name with dots in its parts cannot be split; such a table is known by its path alone."""
    parts = tuple(name.split(".")) if name else ()
    return parts if len(parts) == 3 else ()
