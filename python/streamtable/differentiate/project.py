"""Delta of a projection.

    D(project(A)) = project(D(A))

A projection is linear; rows that it makes equal stay separate rows of the bag, each with its weight.
Refuses: volatile and clock-dependent expressions, subqueries.
"""

from __future__ import annotations

from streamtable.algebra.columns import itself
from streamtable.algebra.operators import WEIGHT, Operator, Project
from streamtable.differentiate.deltas import Deltas
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "refuses"]


def refuses(operator: Project) -> str | None:
    return refusal(item.value for item in operator.items)


def delta(operator: Project, deltas: Deltas) -> Operator | None:
    changed = deltas.of(operator.child)
    return None if changed is None else Project(changed, (*operator.items, itself(WEIGHT)))
