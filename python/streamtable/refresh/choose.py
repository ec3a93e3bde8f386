"""Choose the action of a refresh. The choice is a pure function of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from streamtable.algebra.sources import CLOCK
from streamtable.delta.commit_ids import replaced
from streamtable.delta.tables import Version
from streamtable.differentiate.registry import RuleFinding
from streamtable.engine.load import Load
from streamtable.errors import NotIncremental
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.refresh.cost import Costs
from streamtable.refresh.frontier import Frontier

__all__ = ["FORGOTTEN", "NOT_POPULATED", "REPLACED", "Action", "Choice", "Facts", "choose", "permitted"]

NOT_POPULATED = "the table was not populated yet"
ASKED = "REFRESH ... FULL was asked for"
FORGOTTEN = "the record of the last refresh cannot be read"
REPLACED = "the table was replaced"
"""The reason of a REINITIALIZE that a statement asked for."""


class Action(str, Enum):
    """The action of a refresh; people see the value. FAILED and SKIPPED leave the table as it is."""

    NO_DATA = "NO_DATA"
    DIFFERENTIAL = "DIFFERENTIAL"
    FULL = "FULL"
    REINITIALIZE = "REINITIALIZE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True)
class Choice:
    action: Action
    reason: str


@dataclass(frozen=True)
class Facts:
    """The facts about the query and the logs on which the choice depends.

    `obstacle`: the first operator that cannot be maintained. `unversioned`: a part of the query that changes without a new
    version of a source. `resting`: the sources whose new versions changed no row. `foreign`: a commit on the stream table that is
    not ours. `lost`: a gap in a source's history. `full_scan`: an operator whose delta would read whole tables twice.
    `too_expensive`: why a delta of this size costs more than a full refresh. `estimated`: the costs of both.
    `load`: the load of the refresh, if the logs tell it.
    """

    fingerprint: str
    obstacle: RuleFinding | None = None
    unversioned: str | None = None
    resting: frozenset[str] = frozenset()
    foreign: str | None = None
    lost: str | None = None
    full_scan: RuleFinding | None = None
    too_expensive: str | None = None
    estimated: Costs | None = None
    load: Load | None = None


def permitted(mode: RefreshMode, name: str, choice: Choice) -> Choice:
    """Return the choice. Raises NotIncremental where the mode STRICT forbids to recompute what nobody asked to recompute."""
    recomputes = choice.action in (Action.FULL, Action.REINITIALIZE)
    if mode is RefreshMode.STRICT and recomputes and choice.reason not in (ASKED, NOT_POPULATED):
        raise NotIncremental(
            f"{name} would have to be recomputed, which REFRESH MODE {mode.value} forbids: {choice.reason}",
            hint="REFRESH STREAM TABLE ... FULL recomputes it once; REFRESH MODE DIFFERENTIAL does so by itself",
        )
    return choice


def choose(mode: RefreshMode, forced: bool, frontier: Frontier | None, target: Mapping[str, Version], facts: Facts) -> Choice:
    """Return the action and its reason."""
    if forced:
        return Choice(Action.FULL, ASKED)
    if frontier is None:
        return Choice(Action.REINITIALIZE, NOT_POPULATED)
    if facts.foreign:
        return Choice(Action.REINITIALIZE, facts.foreign)
    known = {path: before for path in target if (before := frontier.sources.get(path))}
    for path, before in known.items():
        if before.table_id != target[path].table_id:
            return Choice(Action.REINITIALIZE, f"the source at {path} was recreated")
    if frontier.fingerprint != facts.fingerprint or known.keys() != target.keys():
        return Choice(Action.REINITIALIZE, "the plan of the query changed (a view, a function or a source was altered)")
    for path, before in known.items():
        if target[path].number < before.number:
            return Choice(Action.REINITIALIZE, f"the source at {path} is at an older version than before")
        if target[path].replaces(before):
            return Choice(Action.REINITIALIZE, replaced(path, before.number))
    if facts.lost:
        return Choice(Action.REINITIALIZE, facts.lost)
    moved = {path for path, version in target.items() if version != frontier.sources[path]}
    if moved <= facts.resting and not facts.unversioned:
        return Choice(Action.NO_DATA, "no row of a source changed" if moved else "no source changed")
    if mode is RefreshMode.FULL:
        return Choice(Action.FULL, "the refresh mode is FULL")
    if facts.obstacle:
        return Choice(Action.FULL, f"{facts.obstacle.operator}: {facts.obstacle.reason}")
    if facts.full_scan and mode is RefreshMode.AUTO:
        return Choice(Action.FULL, f"{facts.full_scan.operator}: {facts.full_scan.reason}, so that a full refresh is cheaper")
    if facts.too_expensive and mode is RefreshMode.AUTO:
        return Choice(Action.FULL, facts.too_expensive)
    tables = moved - facts.resting - {CLOCK.path}
    ticked = "; the clock moved" if CLOCK.path in moved else ""
    cost = f"; {facts.estimated}" if facts.estimated else ""
    return Choice(Action.DIFFERENTIAL, f"{len(tables)} of {len(set(target) - {CLOCK.path})} sources changed{ticked}{cost}")
