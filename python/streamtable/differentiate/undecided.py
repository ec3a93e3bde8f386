"""Aggregates whose values nothing decides: two evaluations of the same rows may give different ones.

Sums of floating numbers depend on the order of additions, first values and lists on the order of rows, min and max on which of two
equal values comes first. So what such a value leads to, above it, has to come from the one evaluation that is stored.
"""

from __future__ import annotations

from streamtable.algebra.identity import comparable
from streamtable.algebra.operators import Aggregate, Operator, Unsupported, Window
from streamtable.algebra.trees import walk
from streamtable.differentiate import aggregate
from streamtable.differentiate.scalars import refusal
from streamtable.differentiate.states import Kind, State, states_of

__all__ = ["left_open", "undecided"]

_DECIDED = ("Count", "Sum", "Min", "Max", "MaxBy", "MinBy")
"""Functions that give one value, if equal values of its type are the same. `Ties.scala` decides between rows of equal order."""


def undecided(tree: Operator) -> bool:
    """Tell whether some aggregate of the tree has such a value."""
    return any(map(_is_open, (state for node in walk(tree) if isinstance(node, Aggregate) for state in states_of(node))))


def _is_open(state: State) -> bool:
    if not comparable(state.column.type):
        return True
    return state.kind is Kind.VALUE and (state.call is None or state.call.function not in _DECIDED)


def left_open(tree: Operator) -> str | None:
    """Say which rows or values of the tree nothing decides, beside the rounding of floating sums; None where all are decided."""
    return next(filter(None, map(_open_in, walk(tree))), None)


def _open_in(node: Operator) -> str | None:
    match node:
        case Unsupported(reason=reason, open=True):
            return reason
        case Aggregate(keys=keys, calls=calls):
            scalars = [*(key.value for key in keys), *(each.value for each in calls if not each.any_order)]
            spelt = [each.text for each in scalars if "COLLATE" in each.type]
            spellings = f"which of the equal spellings of {spelt[0]} a group shows is left open" if spelt else None
            return aggregate.left_open(node) or spellings
        case Window(items=items):
            return refusal(item.value for item in items if item.value.open)
        case _:
            return None
