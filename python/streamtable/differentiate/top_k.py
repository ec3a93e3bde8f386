"""Delta of ORDER BY ... LIMIT k OFFSET m.

    D(top(A)) = top(A') - top(A)

The difference is small, but all rows are read to find it. The shim's `Ties` completes orders that leave ties open.
Refuses: volatile orders; subqueries.

Example, where orders changes:

    SELECT order_id, amount FROM orders ORDER BY amount, order_id LIMIT 3

becomes

    SELECT order_id, amount, 1 AS weight FROM orders_new ORDER BY amount, order_id LIMIT 3
    UNION ALL
    SELECT order_id, amount, -1 AS weight FROM orders_old ORDER BY amount, order_id LIMIT 3;
"""

from __future__ import annotations

from streamtable.algebra.operators import Operator, TopK
from streamtable.differentiate.deltas import Deltas, difference
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "reads_all", "refuses"]


def refuses(operator: TopK) -> str | None:
    return refusal(each.value for each in operator.order)


def reads_all(_: TopK) -> str:
    return "the first rows are found among all rows, before and after"


def delta(operator: TopK, deltas: Deltas) -> Operator | None:
    if deltas.of(operator.child) is None:
        return None
    new, old = deltas.new(operator.child), deltas.old(operator.child)
    return difference(
        TopK(new, operator.order, operator.count, operator.offset),
        TopK(old, operator.order, operator.count, operator.offset),
    )
