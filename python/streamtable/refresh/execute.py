"""Carry out the chosen refresh, differential or full. Each ends in one commit with data and frontier."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession

from streamtable.algebra.operators import Aggregate
from streamtable.algebra.sources import CLOCK
from streamtable.catalog.entries import Entry, readers_of, storing, table_columns
from streamtable.catalog.objects import named_by_some
from streamtable.delta.commit import Committed, commit
from streamtable.delta.tables import Version
from streamtable.differentiate.aggregate_step import AggregateStep
from streamtable.engine.arrangements import Arrangement, arrangements_of, build, roll_back
from streamtable.engine.jobs import jobs_named_after
from streamtable.engine.load import Load
from streamtable.engine.pinned import pinned_query
from streamtable.engine.sources import Sources
from streamtable.engine.tuning import planned_for
from streamtable.engine.workspace import Workspace
from streamtable.errors import HistoryLost
from streamtable.query.analyse import AnalysedQuery
from streamtable.refresh.choose import NOT_POPULATED, Action, Choice
from streamtable.refresh.cost import Ran, remembered
from streamtable.refresh.difference import difference
from streamtable.refresh.differential import Differential
from streamtable.refresh.failpoints import failpoint
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.records import Initiator, Record
from streamtable.refresh.table_change import NotWhatTheFrontierSays, TableChange

__all__ = ["Run", "elapsed", "refresh_full", "refresh_incremental"]


@dataclass
class Run:
    """One refresh of one table: the facts that its steps share."""

    entry: Entry
    analysed: AnalysedQuery
    frontier: Frontier | None
    target: Mapping[str, Version]
    at: datetime
    started: float
    initiator: Initiator
    load: Load | None = None
    tried: int = 0
    """Milliseconds of a differential refresh that failed before, for lack of memory."""

    @property
    def names(self) -> Sequence[str]:
        return table_columns(self.entry)

    @property
    def session(self) -> SparkSession:
        return self.analysed.session


def refresh_incremental(run: Run, choice: Choice) -> Committed:
    frontier = run.frontier
    if frontier is None:
        raise NotWhatTheFrontierSays(NOT_POPULATED)
    with planned_for(run.session, run.load), _workspace(run) as (workspace, arrangements):
        hidden = {a.name: a for a in arrangements.values() if not a.visible}
        pinned = {name: roll_back(workspace, a, _pinned(frontier, a), run.entry.definition.id) for name, a in hidden.items()}
        differential = Differential(
            run.analysed,
            workspace,
            run.entry.path,
            run.entry.state.version,
            run.names,
            run.target,
            frontier.sources,
            arrangements,
            {name: version.number for name, version in pinned.items()},
            frontier.probe,
            run.load,
        )
        rows = differential.compute()
        failpoint("before the arrangements")
        for name, move in differential.moves().items():
            version = pinned[name]
            moved = commit(
                run.session,
                hidden[name].path,
                read_version=version.number,
                application=run.entry.definition.id,
                number=version.number + 1,
                add=move.add,
                remove=move.remove,
            )
            pinned[name] = replace(version, number=moved.version)
            failpoint("between the arrangements")
        recorded = replace(_recorded(run, choice, pinned), probe=rows.probe)
        failpoint("before the table")
        done = _commit(run, choice, recorded, rows, _other_sources(run))
        failpoint("after the table")
        return done


def refresh_full(
    run: Run,
    choice: Choice,
    schema_json: str | None = None,
    properties: Mapping[str, str | None] | None = None,
) -> Committed:
    """Replace the contents by the query, as Spark analysed it, over the sources at the target versions; build the arrangements.

    If other tables read this one, only the rows that differ are committed.
    """
    with _workspace(run) as (workspace, arrangements):
        sources = Sources(run.analysed, workspace, run.target, run.target)
        pinned = {}
        known = run.frontier if run.frontier and run.frontier.fingerprint == run.analysed.fingerprint else None
        if run.analysed.obstacle is None:
            for aggregate, arrangement in arrangements.items():
                if not arrangement.visible:
                    step = AggregateStep.whole(arrangement.name, aggregate)
                    pinned[arrangement.name] = build(
                        run.analysed,
                        workspace,
                        sources,
                        arrangement,
                        step,
                        run.entry.definition.id,
                        known.arrangement(arrangement.name) if known else None,
                    )
                    failpoint("between the arrangements")
        rows = TableChange(pinned_query(run.analysed, run.target).toDF(*run.names), None, whole=True)
        if schema_json is None and _others_see_it(run):
            rows = difference(workspace, run.entry.path, run.entry.state.version, rows)
        recorded = _recorded(run, choice, pinned)
        failpoint("before the table")
        done = _commit(run, choice, recorded, rows, properties or _other_sources(run), schema_json)
        failpoint("after the table")
        return done


def _commit(
    run: Run,
    choice: Choice,
    recorded: Frontier,
    rows: TableChange,
    properties: Mapping[str, str | None] | None,
    schema_json: str | None = None,
) -> Committed:
    """Commit the rows of a refresh with its frontier, on top of the table as the refresh found it."""
    with storing(run.session, run.entry, properties) as allows:
        return commit(
            run.session,
            run.entry.path,
            read_version=run.entry.state.version,
            application=run.entry.definition.id,
            number=recorded.number,
            add=rows.add,
            remove=rows.remove,
            replace_all=rows.whole,
            frontier=recorded.to_json(),
            history=_history(run, choice),
            schema_json=schema_json,
            properties=properties,
            allows=allows,
        )


def _others_see_it(run: Run) -> bool:
    """Tell, from the logs and the catalog alone, whether something reads the table and some of its rows may stay."""
    if run.frontier is None or run.analysed.bound.unversioned or run.load is None or 2 * run.load.changed > run.load.rows:
        return False
    entry = run.entry
    return bool(readers_of(run.session, entry.path)) or named_by_some(run.session, entry.definition.statement.name.parts)


@contextmanager
def _workspace(run: Run) -> Iterator[tuple[Workspace, Mapping[Aggregate, Arrangement]]]:
    named = jobs_named_after(run.session, run.entry.definition.name, "refresh of")
    with named, Workspace(run.session) as workspace:
        yield workspace, arrangements_of(run.analysed.tree, run.entry.path, run.names, run.analysed.fingerprint)


def _other_sources(run: Run) -> Mapping[str, str | None] | None:
    """Return new properties of the definition if the query now reads other tables, columns, views or functions; else None."""
    definition, bound = run.entry.definition, run.analysed.bound
    known, now = (run.entry.views, run.entry.functions), (bound.views, bound.functions)
    same = definition.sources.keys() == set(run.analysed.paths) and bound.columns == run.entry.columns
    if same and [*map(set, known)] == [*map(set, now)]:
        return None
    return replace(definition, sources=run.analysed.names).properties(bound)


def _pinned(frontier: Frontier, arrangement: Arrangement) -> Version:
    pinned = frontier.arrangement(arrangement.name)
    if pinned is None:
        raise HistoryLost(f"the frontier does not know the arrangement {arrangement.name}")
    return pinned


def _recorded(run: Run, choice: Choice, pinned: Mapping[str, Version]) -> Frontier:
    return Frontier(
        sources=run.target,
        arrangements={name: version.number for name, version in pinned.items()},
        arrangement_ids={name: version.table_id for name, version in pinned.items()},
        base=run.entry.state.version,
        number=run.frontier.number + 1 if run.frontier else 1,
        fingerprint=run.analysed.fingerprint,
        action=choice.action.value,
        exact=not run.analysed.bound.unversioned and CLOCK.path not in run.target,
        clock=None if run.analysed.bound.unversioned else run.analysed.bound.clock or None,
        at=run.at,
        runs=_runs(run, choice),
        rejected=run.analysed.rejected is not None,
    )


def _runs(run: Run, choice: Choice) -> tuple[Ran, ...]:
    """Return the costs of the last refreshes of the same plan, with this refresh's time up to its commit."""
    runs = run.frontier.runs_of(run.analysed.fingerprint) if run.frontier else ()
    load = run.load
    if load is None:
        return runs

    def ran(differential: bool, ms: int) -> Ran:
        return Ran(differential, load.changed, load.rows, ms, load.removes)

    took = elapsed(run)
    if run.tried:  # the failed attempt cost all of this time
        runs = remembered(runs, ran(True, took))
    return remembered(runs, ran(choice.action is Action.DIFFERENTIAL, took - run.tried))


def elapsed(run: Run) -> int:
    """Return the milliseconds since the refresh began."""
    return round(1000 * (time.perf_counter() - run.started))


def _history(run: Run, choice: Choice) -> str:
    versions = {path: version.number for path, version in run.target.items()}
    return Record(choice.action, choice.reason, elapsed(run), versions, initiated_by=run.initiator.value).to_json()
