"""Delta of ORDER BY ... LIMIT k OFFSET m.

    D(top(A)) = top(A') - top(A)

which is small, whatever it costs to find. Orders that leave ties open are completed when the query is read (the shim's `Ties`).
Refuses: volatile orders; subqueries.
"""

from __future__ import annotations

from streamtable.algebra.operators import Operator, TopK
from streamtable.differentiate.deltas import Deltas, difference
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "reads_all", "refuses"]


def refuses(operator: TopK) -> str | None:
    return refusal(each.value for each in operator.order)


def reads_all(_: TopK) -> str:
    return "which rows come first is found among all rows, before and after"


def delta(operator: TopK, deltas: Deltas) -> Operator | None:
    if deltas.of(operator.child) is None:
        return None
    new, old = deltas.new(operator.child), deltas.old(operator.child)
    return difference(
        TopK(new, operator.order, operator.count, operator.offset),
        TopK(old, operator.order, operator.count, operator.offset),
    )
