"""Delta of UNION ALL.

    D(A + B) = D(A) + D(B)

The sum of Z-sets is linear in each of its inputs.
Refuses: nothing.

Example, where orders and payments change:

    SELECT order_id FROM orders UNION ALL SELECT paid_order FROM payments

becomes

    SELECT order_id, weight FROM orders_delta UNION ALL SELECT paid_order AS order_id, weight FROM payments_delta;
"""

from __future__ import annotations

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import Operator, UnionAll
from streamtable.differentiate.deltas import Deltas

__all__ = ["delta", "refuses"]


def refuses(_: Operator) -> str | None:
    return None


def delta(operator: UnionAll, deltas: Deltas) -> Operator | None:
    changed = tuple(delta for child in operator.inputs if (delta := deltas.of(child)) is not None)
    return UnionAll(changed, (*operator.columns, WEIGHT)) if changed else None
