"""The record in the commit of a refresh: its frontier, the costs from which AUTO learns, and the line of the history."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.definition import Definition
from streamtable.delta.tables import Version
from streamtable.language.stream_table.state import StateMode
from streamtable.query.analyse import AnalysedQuery
from streamtable.query.states import Decided
from streamtable.refresh.choose import Action, Choice
from streamtable.refresh.cost import Ran, remembered
from streamtable.refresh.counts import Counts
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.phases import Phase
from streamtable.refresh.records import Record

if TYPE_CHECKING:
    from streamtable.refresh.execute import Run

__all__ = ["costs_after", "elapsed", "frontier_after", "history_line", "states_to_keep"]


def frontier_after(run: Run, choice: Choice, pinned: Mapping[str, Version]) -> Frontier:
    """Return the frontier of a refresh to its targets. Its costs are known when the rows are written."""
    return Frontier(
        sources=run.target,
        arrangements={name: version.number for name, version in pinned.items()},
        arrangement_ids={name: version.table_id for name, version in pinned.items()},
        arrangement_commits={name: version.commit for name, version in pinned.items() if version.commit is not None},
        base=run.entry.state.version,
        number=run.frontier.number + 1 if run.frontier else 1,
        fingerprint=run.analysed.fingerprint,
        action=choice.action.value,
        exact=not run.analysed.bound.unversioned and CLOCK.path not in run.target and run.analysed.named_once,
        clock=None if run.analysed.bound.unversioned else run.analysed.bound.clock or None,
        at=run.at,
        rejected=run.analysed.rejected is not None,
        states=states_to_keep(run.entry.definition, run.analysed),
        trusted=run.given.trusted if run.given else choice.action is Action.DIFFERENTIAL and run.analysed.trusted,
    )


def states_to_keep(definition: Definition, analysed: AnalysedQuery) -> tuple[Decided, ...]:
    """Return the decisions to which later refreshes keep: those of STATE AUTO."""
    return tuple(decided for _, decided in analysed.states) if definition.statement.state is StateMode.AUTO else ()


def costs_after(run: Run, choice: Choice) -> tuple[Ran, ...]:
    """Return the costs of the last refreshes of the same plan, with the time of this one until its rows were written.

    To copy the rows of another table tells nothing about the cost of the query.
    """
    runs = run.frontier.runs_of(run.analysed.fingerprint) if run.frontier else ()
    load = run.load
    if load is None or run.given:
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


def history_line(run: Run, choice: Choice, counts: Counts | None, states: Mapping[str, int]) -> str:
    """Return the line of the history, with the time until the rows were written."""
    run.phases.ended(Phase.WRITE)
    versions = {path: version.number for path, version in run.target.items()}
    made = Record(choice.action, choice.reason, elapsed(run), versions, counts=counts, phases=run.phases.ms, states=states)
    return made.because_of(run.cause).to_json()
