"""What this release stores of aggregates in other columns than the ones before it.

The words are part of a plan's fingerprint. So the next refresh finds another plan than the last one, and builds the states anew.
"""

from __future__ import annotations

from streamtable.algebra.operators import Aggregate, Operator
from streamtable.algebra.trees import walk
from streamtable.differentiate.states import Kind, State, states_of
from streamtable.differentiate.undecided import undecided

__all__ = ["layout_of"]


def layout_of(tree: Operator) -> tuple[str, ...]:
    """Name what is new in the states of a tree; nothing where all columns are those of earlier releases."""
    stored = [states_of(node) for node in walk(tree) if isinstance(node, Aggregate)]
    apart = any(len({_spelled(each) for each in states}) < len(states) for states in stored)
    winners = any(state.kind is Kind.WINNER for states in stored for state in states)
    news = {"names told apart": apart, "winners stored": winners, "one evaluation": undecided(tree)}
    return tuple(name for name, found in news.items() if found)


def _spelled(state: State) -> tuple[object, ...]:
    """Return the key that a state had in releases for which columns of one name were one column."""
    if state.call is None or state.kind not in (Kind.COUNT, Kind.SUM):
        return state.key
    texts = tuple(each.text for each in (*state.call.arguments, *((state.call.filter,) if state.call.filter else ())))
    return (state.kind, texts, state.call.filter is None, state.column.type)
