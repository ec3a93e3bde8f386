"""Delta of the rows of the level before, in the step of a recursion.

    D(Rk) = the delta that the refresh found for the level k

Only the rule of the recursion asks for it, while it follows the change from level to level.
Refuses: nothing.
"""

from __future__ import annotations

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import Operator, StoredRows, WorkingTable
from streamtable.differentiate.deltas import Deltas

__all__ = ["delta", "reads", "refuses"]


def refuses(_: WorkingTable) -> str | None:
    return None


def reads(_: WorkingTable) -> str:
    return "the change of the level before"


def delta(operator: WorkingTable, _: Deltas) -> Operator:
    return StoredRows(operator.loop.path, (*operator.columns, WEIGHT))
