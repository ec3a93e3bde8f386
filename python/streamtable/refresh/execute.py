"""Carry out the chosen refresh, differential or full. Each ends in one commit with data and frontier."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from streamtable.algebra.operators import Aggregate
from streamtable.algebra.render import render
from streamtable.catalog.entries import Entry, storing, table_columns
from streamtable.catalog.requests import ended
from streamtable.delta.commit import Committed, Metadata, Transaction, commit
from streamtable.delta.commit_ids import version_at
from streamtable.delta.rows import read
from streamtable.delta.tables import Version
from streamtable.differentiate.undecided import undecided
from streamtable.engine.arrangements import Arrangement, arrangements_of, build, over_states, roll_back
from streamtable.engine.jobs import REFRESH_OF, jobs_named_after
from streamtable.engine.load import Load
from streamtable.engine.sources import Sources
from streamtable.engine.tuning import planned_for
from streamtable.engine.workspace import Workspace
from streamtable.errors import HistoryLost
from streamtable.query.analyse import AnalysedQuery
from streamtable.query.fits import refuse_moved
from streamtable.query.followed import followers
from streamtable.refresh.backfill import Given
from streamtable.refresh.choose import NOT_POPULATED, Choice
from streamtable.refresh.conditions import conditions_named
from streamtable.refresh.counts import Counts
from streamtable.refresh.difference import difference
from streamtable.refresh.differential import Differential
from streamtable.refresh.expectations import refuse_violations, whole
from streamtable.refresh.failpoints import failpoint
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.phases import Phase, Phases
from streamtable.refresh.recording import costs_after, frontier_after, history_line
from streamtable.refresh.records import Cause
from streamtable.refresh.table_change import NotWhatTheFrontierSays, TableChange, not_frozen
from streamtable.sql.builder import qualified
from streamtable.tracing import phase

__all__ = ["Run", "refresh_full", "refresh_incremental"]


@dataclass(frozen=True)
class Run:
    """One refresh of one table: the facts that its steps share."""

    entry: Entry
    analysed: AnalysedQuery
    frontier: Frontier | None
    target: Mapping[str, Version]
    at: datetime
    started: float
    cause: Cause
    phases: Phases
    load: Load | None = None
    tried: int = 0
    """Milliseconds of a differential refresh that failed before, for lack of memory."""
    given: Given | None = None
    """Whose rows are the first contents, where CREATE said so."""

    @property
    def column_names(self) -> Sequence[str]:
        return table_columns(self.entry)

    @property
    def session(self) -> SparkSession:
        return self.analysed.session

    @property
    def keeps_frozen(self) -> bool:
        """Tell whether the table has frozen rows to keep."""
        return self.analysed.frozen is not None and self.entry.state.frontier is not None

    @property
    def computed(self) -> AnalysedQuery:
        """Return the query that a full refresh computes. The first one brings in the rows that are frozen from then on."""
        frozen = self.analysed.frozen
        return self.analysed if frozen is None or self.keeps_frozen else replace(self.analysed, frame=frozen.whole)

    @property
    def undecided(self) -> bool:
        """Tell whether nothing but its states decides a value of some aggregate, so that the rows have to be computed of them."""
        compared = self.given is None or not self.given.trusted
        plain = compared and (self.analysed.frozen is None or self.keeps_frozen)
        return plain and self.analysed.obstacle is None and undecided(self.analysed.tree)

    def known(self, arrangement: str) -> Version | None:
        """Return the version of an arrangement that the frontier has, if the plan is the same."""
        found = self.frontier
        return found.arrangement(arrangement) if found and found.fingerprint == self.analysed.fingerprint else None


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
            run.column_names,
            run.target,
            frontier.sources,
            arrangements,
            {name: version.number for name, version in pinned.items()},
            frontier.probe,
            run.load,
        )
        rows = differential.compute()
        counts = _counts_after(frontier, differential.counts())
        refuse_violations(run.entry.definition.name, run.analysed, run.target, counts)
        run.phases.ended(Phase.COMPUTE)
        failpoint("before the arrangements")
        written = dict[str, int]()
        for name, move in differential.moves().items():
            version = pinned[name]
            moved = commit(
                run.session,
                hidden[name].path,
                version.number,
                Transaction(run.entry.definition.id, version.number + 1),
                move,
                table_id=version.table_id or None,
            )
            pinned[name] = version_at(run.session, hidden[name].path, version.table_id, moved.version)
            written[name] = moved.rows_added
            failpoint("between the arrangements")
        run.phases.ended(Phase.STATES)
        recorded = replace(frontier_after(run, choice, pinned), probe=rows.probe, counts=counts)
        failpoint("before the table")
        done = _commit(run, choice, recorded, rows, _other_sources(run), states=written)
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
    named = conditions_named(run.entry.definition.name, run.analysed, run.target, _kept_rows(run))
    with named, _workspace(run) as (workspace, arrangements):  # what the workspace keeps has the answers of conditions in it
        sources = Sources(run.analysed, workspace, run.target, run.target)
        of_states = run.undecided and not all(each.visible for each in arrangements.values())
        pinned = _built(run, workspace, sources, arrangements, read_all=True) if of_states else None
        found = _of_states(run, workspace, sources, arrangements) if of_states else None
        query, counts = whole(workspace, run.computed, run.target, found)
        refuse_violations(run.entry.definition.name, run.analysed, run.target, counts)
        query = query.toDF(*run.column_names)
        contents = run.given.rows(workspace, query, run.analysed.outside) if run.given else query
        contents = run.analysed.frozen.told(contents) if run.analysed.frozen and not run.keeps_frozen else contents
        run.phases.ended(Phase.COMPUTE)
        if pinned is None:
            pinned = _built(run, workspace, sources, arrangements, read_all=False)
        thawed = not_frozen(run.analysed, run.entry.path, run.entry.state.version) if run.keeps_frozen else None
        rows = TableChange(contents, thawed, replace_all=not run.keeps_frozen)
        if schema_json is None and _others_see_it(run):
            rows = difference(workspace, run.entry.path, run.entry.state.version, rows, run.analysed)
        run.phases.ended(Phase.COMPUTE)
        recorded = replace(frontier_after(run, choice, pinned), counts=counts)
        failpoint("before the table")
        done = _commit(run, choice, recorded, rows, properties or _other_sources(run), schema_json)
        failpoint("after the table")
        return done


def _built(
    run: Run, workspace: Workspace, sources: Sources, arrangements: Mapping[Aggregate, Arrangement], read_all: bool
) -> Mapping[str, Version]:
    """Compute the hidden arrangements, if the query has deltas; return their versions by name."""
    pinned = dict[str, Version]()
    if run.analysed.obstacle is None:
        id_ = run.entry.definition.id
        for name, version in build(run.analysed, workspace, sources, arrangements, id_, run.known, read_all):
            pinned[name] = version
            failpoint("between the arrangements")
    run.phases.ended(Phase.STATES)
    return pinned


def _of_states(run: Run, workspace: Workspace, sources: Sources, arrangements: Mapping[Aggregate, Arrangement]) -> DataFrame:
    """Compute the rows of the query, those that expectations judge, from the arrangements."""
    judged = run.analysed.judged
    return workspace.query(render(over_states(judged.tree if judged else run.analysed.tree, arrangements), sources))


def _kept_rows(run: Run) -> Iterator[DataFrame]:
    """Yield the rows beside those of the query that the condition of frozen rows judges."""
    if run.keeps_frozen:
        yield read(run.session, run.entry.path, run.entry.state.version).select(*(qualified((name,)) for name in run.column_names))
    if run.given:
        yield run.given.found(run.session).toDF(*run.column_names)


def _counts_after(frontier: Frontier, change: Counts | None) -> Counts | None:
    if change is None:
        return None
    if frontier.counts is None or frontier.counts.failed.keys() != change.failed.keys():
        raise NotWhatTheFrontierSays("the counts of the expectations are not known")
    counts = frontier.counts.plus(change)
    if min(counts.rows, *counts.failed.values()) < 0:
        raise NotWhatTheFrontierSays("the counts of the expectations do not add up")
    return counts


def _commit(
    run: Run,
    choice: Choice,
    recorded: Frontier,
    rows: TableChange,
    properties: Mapping[str, str | None] | None,
    schema_json: str | None = None,
    states: Mapping[str, int] = {},
) -> Committed:
    """Commit the rows of a refresh with its frontier, on top of the table as the refresh found it. Raises ConcurrentRefresh."""
    refuse_moved(run.entry, run.analysed)
    if run.cause.request:
        properties = {**(properties or {}), **ended(run.cause.request)}
    with phase("commit"), storing(run.session, run.entry, properties) as allows:
        return commit(
            run.session,
            run.entry.path,
            run.entry.state.version,
            Transaction(run.entry.definition.id, recorded.number),
            rows,
            Metadata(
                lambda: replace(recorded, runs=costs_after(run, choice)).to_json(),
                lambda: history_line(run, choice, recorded.counts, states),
                schema_json,
                properties,
            ),
            allows,
            run.entry.state.table_id,
        )


def _others_see_it(run: Run) -> bool:
    """Tell, from the logs and the catalog alone, whether something reads the table and some of its rows may stay."""
    if run.frontier is None or run.analysed.bound.unversioned or run.load is None or 2 * run.load.changed > run.load.rows:
        return False
    return any(True for _ in followers(run.session, run.entry))


@contextmanager
def _workspace(run: Run) -> Iterator[tuple[Workspace, Mapping[Aggregate, Arrangement]]]:
    named = jobs_named_after(run.session, run.entry.definition.name, REFRESH_OF)
    with named, Workspace(run.session) as workspace:
        yield workspace, arrangements_of(run.analysed, run.entry.path, run.column_names)


def _other_sources(run: Run) -> Mapping[str, str | None] | None:
    """Return new properties of the definition if the query now reads other tables, columns, views or functions; else None."""
    definition, bound = run.entry.definition, run.analysed.bound
    known, now = (run.entry.views, run.entry.functions), (bound.views, bound.functions)
    same = definition.sources.keys() == set(run.analysed.paths) and bound.columns == run.entry.columns
    same = same and tuple(json.loads(bound.used)) == run.entry.used
    if same and [*map(set, known)] == [*map(set, now)]:
        return None
    return replace(definition, sources=run.analysed.source_names).properties(bound)


def _pinned(frontier: Frontier, arrangement: Arrangement) -> Version:
    pinned = frontier.arrangement(arrangement.name)
    if pinned is None:
        raise HistoryLost(f"the frontier does not know the arrangement {arrangement.name}")
    return pinned
