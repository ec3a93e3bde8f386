"""Which optional states a query stores, and why: the decision of STATE NONE, AUTO or ALL."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.algebra.distinct import merge_distincts
from streamtable.algebra.distinct_calls import store_distinct_values
from streamtable.algebra.operators import Operator
from streamtable.algebra.optional import OptionalState, Origin, Wanted
from streamtable.algebra.partners import store_partners
from streamtable.catalog.entries import Entry
from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.spans import scattered, spans
from streamtable.differentiate.layout import layout_of
from streamtable.errors import StreamTableError
from streamtable.jvm.failures import cancelled
from streamtable.language.stream_table.state import StateMode

__all__ = ["Decided", "Formed", "Plan", "decide_by_files", "formed", "plan_of", "stored"]


@dataclass(frozen=True)
class Decided:
    """Whether an optional state is stored, and why."""

    stored: bool
    reason: str


@dataclass(frozen=True)
class Plan:
    """The plan of a refresh: its fingerprint, and what AUTO decided of each optional state, in the order of `formed`.

    `trusted`: the contents began with rows that nobody compared with the query, and were not computed since.
    """

    fingerprint: str
    states: tuple[Decided, ...] = ()
    trusted: bool = False


def plan_of(entry: Entry) -> Plan | None:
    """Return the plan of a table's last refresh, as its frontier records it; None where no record can be read."""
    try:
        frontier = json.loads(entry.state.frontier or "null")
        return restored(Plan, {key: frontier[key] for key in ("fingerprint", "states", "trusted") if key in frontier})
    except UNREADABLE:
        return None


@dataclass(frozen=True)
class Formed:
    """A tree whose states are chosen. `form` names the rewritings that changed it, and what earlier releases stored otherwise."""

    tree: Operator
    form: str
    states: tuple[tuple[OptionalState, Decided], ...]


Decide: TypeAlias = Callable[[int, OptionalState], Decided]
"""Decides about the optional state of a number, and that state."""

_FORMS: tuple[tuple[str, Callable[[Operator, Wanted], Operator]], ...] = (
    ("values stored", store_distinct_values),
    ("partners stored", store_partners),
    ("distincts merged", lambda tree, _: merge_distincts(tree)),
)
"""The rewritings that decide which states are stored, by name. Tables of earlier releases may store other states."""


def formed(tree: Operator, decide: Decide) -> Formed:
    """Rewrite the tree so that the states are stored on which `decide` decides so."""
    states: list[tuple[OptionalState, Decided]] = []

    def wanted(state: OptionalState) -> bool:
        states.append((state, decide(len(states), state)))
        return states[-1][1].stored

    names = []
    for name, form in _FORMS:
        first, before = len(states), tree
        tree = form(tree, wanted)
        taken = [n for n, (_, decided) in enumerate(states[first:]) if decided.stored]
        if tree != before:
            names.append(name if len(taken) == len(states) - first else f"{name}: {taken}")
    return Formed(tree, ", ".join([*names, *layout_of(tree)]), tuple(states))


def stored(
    session: SparkSession, tree: Operator, mode: StateMode, before: Plan | None, identify: Callable[[str], str]
) -> tuple[Formed, str]:
    """Return the tree with the states that `mode` stores, and the fingerprint, which `identify` makes of a form.

    AUTO keeps to what it decided for the plan `before`, as long as this is the plan of the query.
    """
    if mode is StateMode.AUTO and before is not None:
        kept = formed(tree, lambda n, _: _recorded(before.states, n))
        if (fingerprint := identify(kept.form)) == before.fingerprint:
            return kept, fingerprint
    found = formed(tree, _decide(session, mode))
    return found, identify(found.form)


def _recorded(states: Sequence[Decided], n: int) -> Decided:
    """Return what was recorded. Earlier releases recorded nothing, and stored each state."""
    return states[n] if n < len(states) else Decided(True, "an earlier release stored it")


def _decide(session: SparkSession, mode: StateMode) -> Decide:
    if mode is not StateMode.AUTO:
        always = Decided(mode is StateMode.ALL, f"the table has STATE {mode.value}")
        return lambda n, state: always
    found = cache(partial(_scattered, session))
    return lambda n, state: decide_by_files(state, found)


def _scattered(session: SparkSession, origin: Origin) -> bool | None:
    """Ask the files of a table. None where they cannot be asked: no query fails for the sake of a guess."""
    try:
        return scattered(spans(session, origin.source.path, origin.column))
    except (StreamTableError, Py4JJavaError, CapturedException) as error:
        if cancelled(error):
            raise
        return None


def decide_by_files(state: OptionalState, scattered_: Callable[[Origin], bool | None]) -> Decided:
    """Store a state unless the rows with a key lie together, so that few files have to be read for a change without it."""
    told = {origin: scattered_(origin) for origin in state.keys}
    together = next((origin for origin, scatters in told.items() if scatters is False), None)
    if together is not None:
        return Decided(False, f"rows with equal {together.column} lie together in the files of {together.source}")
    apart = next((origin for origin, scatters in told.items() if scatters), None)
    if apart is not None:
        return Decided(True, f"rows with equal {apart.column} are scattered over the files of {apart.source}")
    if told:
        return Decided(True, "the files do not tell whether rows with equal keys lie together")
    return Decided(True, "no column of one table leads to the rows of its keys")
