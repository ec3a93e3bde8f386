"""The delta of a query, built and analysed by Spark before a statement promises it. No row is read, and no job runs.

A refresh and its dry run share the steps of `Differential`. The dry run puts relations without rows in the place of what a refresh
reads, so that a query of the delta which Spark rejects is an obstacle at CREATE instead of an error at each refresh.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamtable.algebra.operators import WEIGHT, Aggregate, Form
from streamtable.algebra.render import render
from streamtable.algebra.sources import CLOCK
from streamtable.delta.bridge import SHIM, frame_of, java_class
from streamtable.delta.rows import ChangeSet
from streamtable.delta.tables import Version, versions
from streamtable.differentiate.aggregate import POSITION, AggregateStep
from streamtable.differentiate.deltas import Recursed
from streamtable.differentiate.rules import Finding, obstacle
from streamtable.refresh.arrangements import Arrangement, arrangements_of, content
from streamtable.refresh.cost import Load
from streamtable.refresh.differential import Differential
from streamtable.refresh.locate import Measured, by_content
from streamtable.refresh.prepare import Prepared
from streamtable.refresh.sources import Sources, netted
from streamtable.refresh.workspace import ColumnExtents, Workspace
from streamtable.sql.builder import column, select
from streamtable.tracebacks import words_of

__all__ = ["reject", "rejected"]

_log = logging.getLogger(__name__)

_PLACE = "dry_run"
"""Stands for the path of the table, which is not there yet."""

_LOAD = Load(1, 1)
"""A small change, whose plan has all parts."""

_MOST_VERDICTS = 1000

_verdicts: dict[str, Finding | None] = {}
"""What the dry runs of this process found, by the fingerprint of the plan."""


def rejected(prepared: Prepared) -> Finding | None:
    """Return why a differential refresh of the query would fail, or None when Spark can plan one for each change.

    Each source is changed alone, then all of them at once: the terms of a delta depend on what else changed.
    """
    if obstacle(prepared.tree):
        return None
    key = prepared.fingerprint
    if key not in _verdicts:
        while len(_verdicts) >= _MOST_VERDICTS:
            _verdicts.pop(next(iter(_verdicts)), None)
        _verdicts[key] = _try_all(prepared)
    return _verdicts[key]


def reject(prepared: Prepared, error: BaseException) -> Finding:
    """Remember that Spark rejected the delta of the query in a refresh; return the obstacle that this is."""
    found = _finding(error)
    _verdicts[prepared.fingerprint] = found
    return found


def _finding(error: BaseException) -> Finding:
    said = next(iter(words_of(error).strip().splitlines()), type(error).__name__)
    _log.error("defect: Spark rejects the delta of a query whose operators all have rules: %s", said)
    return Finding("Delta", False, f"Spark rejects the delta of this query: {said}")


def _try_all(prepared: Prepared) -> Finding | None:
    target = {path: v for path, v in zip(prepared.paths, versions(prepared.session, prepared.paths), strict=True) if v is not None}
    if prepared.reading.clock:
        target[CLOCK.path] = Version(CLOCK.path, 1)
    sources = sorted(target)
    changes = [[each] for each in sources] + ([sources] if len(sources) > 1 else [])
    try:
        for changed in changes:
            with _Unread(prepared.session) as workspace:
                before = {path: replace(v, number=v.number - 1) if path in changed else v for path, v in target.items()}
                names = [c.id for c in prepared.tree.columns]
                arrangements = arrangements_of(prepared.tree, _PLACE, names, prepared.fingerprint)
                _DryRun(prepared, workspace, _PLACE, 0, names, target, before, arrangements, {}, None, _LOAD).run()
    except (PySparkException, ValueError, RecursionError) as error:
        return _finding(error)
    return None


class _Unread(Workspace):
    """A workspace that computes nothing: what a refresh would keep stays a plan."""

    def keep(self, frame: DataFrame) -> DataFrame:
        return frame

    def hold(self, frame: DataFrame, rows: int | None = None) -> DataFrame:
        return frame

    def has_rows(self, frame: DataFrame) -> bool:
        return True

    def extents(self, name: str) -> ColumnExtents:
        return {}


class _Unchanged(Sources):
    """Sources whose change sets are empty, read from no log."""

    def change(self, path: str) -> ChangeSet:
        rows = self._read(path, Form.NEW)
        weighted = rows.withColumn(WEIGHT.id, F.lit(1).cast("bigint"))
        return ChangeSet(_without_rows(self.workspace, weighted), "diff", appends_only=False, carries_over=True)

    def _read(self, path: str, form: Form) -> DataFrame:
        return super()._read(path, Form.NEW if form is Form.OLD else form)


class _DryRun(Differential):
    """A differential refresh over relations without rows."""

    def sources_of(self, expected: int | None) -> Sources:
        return _Unchanged(self.prepared, self.workspace, self.target, self.frontier, expected)

    def stored(self, aggregate: Aggregate, arrangement: Arrangement) -> DataFrame:
        step = AggregateStep.whole(arrangement.name, aggregate)
        states = content(self.workspace, arrangement, step.initial(self.sources))
        return self._located(states)

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
        for step in self.steps:
            self.workspace.query(step.left())
            if not self.arrangements[step.aggregate].visible:
                self.arrived(step)
        if self.top is not None:
            self.workspace.query(select([column(each) for each in self.ids()], self.delta(self.root)))
            return
        columns = self.prepared.tree.columns
        self.workspace.name("net", self.workspace.query(self.net(self.root)))
        self.workspace.name("present", self._located(self.prepared.frame.toDF(*self.ids())))
        self.workspace.query(by_content("net", columns, "present", Measured(1, 1, ())))


def _without_rows(workspace: Workspace, frame: DataFrame) -> DataFrame:
    """Return a relation without rows that has the columns of `frame` and nothing else of it."""
    held = java_class(workspace.session, f"{SHIM}.Held")
    return frame_of(workspace.session, held.empty(frame._jdf))
