"""Delta of a filter.

    D(filter(A)) = filter(D(A))

A filter is linear: it looks at one row at a time, so it lets a retraction through exactly when it let the row through.
Refuses: volatile and clock-dependent predicates, subqueries.
"""

from __future__ import annotations

from streamtable.algebra.operators import Filter, Operator
from streamtable.differentiate.deltas import Deltas
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "refuses"]


def refuses(operator: Filter) -> str | None:
    return refusal(operator.conjuncts)


def delta(operator: Filter, deltas: Deltas) -> Operator | None:
    changed = deltas.of(operator.child)
    return None if changed is None else Filter(changed, operator.conjuncts)
