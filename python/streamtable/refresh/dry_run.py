"""The delta of a query, built and analysed by Spark before a statement promises it. No row is read, and no job runs.

A refresh and its dry run share the steps of `Differential`. The dry run reads relations without rows in place of tables. If Spark
rejects a query of the delta, the rejection is an obstacle at CREATE, not an error at each refresh.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamtable.algebra.columns import POSITION, WEIGHT
from streamtable.algebra.operators import Aggregate
from streamtable.algebra.render import render
from streamtable.algebra.sources import CLOCK, Snapshot
from streamtable.delta.columns import refused_states
from streamtable.delta.rows import ChangeSet
from streamtable.delta.tables import Version, versions
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.differentiate.deltas import Recursed
from streamtable.differentiate.registry import RuleFinding, obstacle
from streamtable.engine.arrangements import Arrangement, arrangements_of, content
from streamtable.engine.load import Load
from streamtable.engine.locate import Measured, by_content
from streamtable.engine.netting import netted
from streamtable.engine.sources import Sources
from streamtable.engine.workspace import ColumnExtents, Workspace
from streamtable.errors import message_of
from streamtable.jvm.gateway import SHIM, frame_of, java_class
from streamtable.query.analyse import AnalysedQuery
from streamtable.refresh.differential import Differential
from streamtable.refresh.expectations import counting
from streamtable.sql.builder import column, select

__all__ = ["reject", "rejected"]

_log = logging.getLogger(__name__)

_PLACE = "dry_run"
"""Stands for the path of the table, which does not exist yet."""

_LOAD = Load(1, 1)
"""A small change, whose plan has all parts."""

_MOST_VERDICTS = 1000

_verdicts: dict[str, RuleFinding | None] = {}
"""The results of this process's dry runs, by the fingerprint of the plan."""


def rejected(analysed: AnalysedQuery) -> RuleFinding | None:
    """Return why a differential refresh of the query would fail, or None when Spark can plan one for each change.

    Each source is changed alone, then all of them at once, because the terms of a delta depend on the set of changed sources.
    """
    if obstacle(analysed.tree, stored=analysed.judged is None):
        return None
    key = analysed.fingerprint
    if key not in _verdicts:
        while len(_verdicts) >= _MOST_VERDICTS:
            _verdicts.pop(next(iter(_verdicts)), None)
        _verdicts[key] = _try_all(analysed)
    return _verdicts[key]


def reject(analysed: AnalysedQuery, error: BaseException) -> RuleFinding:
    """Remember that Spark rejected the delta of the query in a refresh; return the rejection as an obstacle."""
    found = _finding(error)
    _verdicts[analysed.fingerprint] = found
    return found


def _finding(error: BaseException) -> RuleFinding:
    if isinstance(error, RecursionError) or "nested too deeply" in str(error):
        return RuleFinding("Delta", False, "the query is nested too deeply; a stream table of a part of it would be maintained")
    said = next(iter(message_of(error).strip().splitlines()), type(error).__name__)
    _log.error("defect: Spark rejects the delta of a query whose operators all have rules: %s", said)
    return RuleFinding("Delta", False, f"Spark rejects the delta of this query: {said}")


def _try_all(analysed: AnalysedQuery) -> RuleFinding | None:
    target = {path: v for path, v in zip(analysed.paths, versions(analysed.session, analysed.paths), strict=True) if v is not None}
    if analysed.bound.clock:
        target[CLOCK.path] = Version(CLOCK.path, 1)
    sources = sorted(target)
    changes = [[each] for each in sources] + ([sources] if len(sources) > 1 else [])
    try:
        for changed in changes:
            with _Unread(analysed.session) as workspace:
                before = {path: replace(v, number=v.number - 1) if path in changed else v for path, v in target.items()}
                names = [c.id for c in analysed.tree.columns]
                arrangements = arrangements_of(analysed, _PLACE, names)
                _DryRun(analysed, workspace, _PLACE, 0, names, target, before, arrangements, {}, None, _LOAD).run()
    except _NotStored as error:
        return RuleFinding("Aggregate", False, str(error))
    except (PySparkException, ValueError, RecursionError) as error:
        return _finding(error)
    return None


class _NotStored(Exception):
    """Delta cannot store the states of a group, for the reason in the text."""


class _Unread(Workspace):
    """A workspace that computes nothing: frames that a refresh would keep stay plans."""

    def persist(self, frame: DataFrame) -> DataFrame:
        return frame

    def materialise(self, frame: DataFrame, rows: int | None = None) -> DataFrame:
        return frame

    def has_rows(self, frame: DataFrame) -> bool:
        return True

    def extents(self, name: str) -> ColumnExtents:
        return {}


class _Unchanged(Sources):
    """Sources whose change sets are empty, read from no log."""

    def change(self, path: str) -> ChangeSet:
        rows = self._read(path, Snapshot.TARGET)
        weighted = rows.withColumn(WEIGHT.id, F.lit(1).cast("bigint"))
        return ChangeSet(_without_rows(self.workspace, weighted), "diff", appends_only=False, carries_over=True, updates=True)

    def _read(self, path: str, snapshot: Snapshot) -> DataFrame:
        return super()._read(path, Snapshot.TARGET if snapshot is Snapshot.FRONTIER else snapshot)


class _DryRun(Differential):
    """A differential refresh over relations without rows."""

    def sources_of(self, expected: int | None) -> Sources:
        return _Unchanged(self.analysed, self.workspace, self.target, self.frontier, expected)

    def stored(self, aggregate: Aggregate, arrangement: Arrangement) -> DataFrame:
        step = AggregateStep.whole(arrangement.name, aggregate)
        states = content(self.workspace, arrangement, step.initial(self.sources))
        return self._located(states)

    def table_before(self) -> DataFrame:
        return _without_rows(self.workspace, self.analysed.frame.toDF(*self.ids()))

    def _located(self, rows: DataFrame) -> DataFrame:
        file, row = POSITION
        return _without_rows(self.workspace, rows.withColumns({file: F.lit(""), row: F.lit(0).cast("bigint")}))

    def restricts(self, step: AggregateStep) -> bool:
        return bool(step.keys)

    def recurse(self, change: Recursed) -> DataFrame:
        arriving = self.workspace.query(render(change.arriving, self.sources))
        columns = [each for each in change.arriving.columns if each != WEIGHT]
        here = self.workspace.query(netted(self.workspace.name("arrived", arriving), columns))
        self.workspace.name(change.recursion.loop.path, here.toDF(*(c.id for c in change.working.columns), WEIGHT.id))
        return here.unionAll(self.workspace.query(render(change.step, self.sources)))

    def run(self) -> None:
        """Analyse each query of the refresh."""
        if self.root is None:
            return
        self.take_steps()
        if self.analysed.judged and self.judged:
            self.workspace.query(counting(self.analysed.judged, self.judged.name, column(WEIGHT.id)))
        for step in self.steps:
            self.workspace.query(step.left())
            if not self.arrangements[step.aggregate].visible:
                _check(step, self.arrived(step))
        if self.top is not None:
            self.workspace.query(select([column(each) for each in self.ids()], self.delta(self.root)))
            return
        columns = self.analysed.tree.columns
        self.workspace.name("net", self.workspace.query(self.net(self.root)))
        self.workspace.name("present", self._located(self.analysed.frame.toDF(*self.ids())))
        self.workspace.query(by_content("net", columns, "present", Measured(1, 1, ())))


def _check(step: AggregateStep, states: DataFrame) -> None:
    """Raise _NotStored for states that no arrangement can hold."""
    if why := next(refused_states(states.schema), None):
        calls = ", ".join(call.value.text for call in step.aggregate.calls)
        raise _NotStored(f"Delta cannot store the states of its groups ({calls}): {why}")


def _without_rows(workspace: Workspace, frame: DataFrame) -> DataFrame:
    """Return a relation without rows, with the columns of `frame`."""
    held = java_class(workspace.session, f"{SHIM}.Held")
    return frame_of(workspace.session, held.empty(frame._jdf))
