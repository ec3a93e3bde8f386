"""Delta of a constant relation (VALUES, range, one row).

    D(c) = 0

Nothing changes a constant, so its delta is empty.
Refuses: nothing.

Example, where orders changes:

    SELECT order_id FROM orders UNION ALL SELECT n FROM VALUES (1), (2) AS v(n)

becomes

    SELECT order_id, weight FROM orders_delta;
"""

from __future__ import annotations

from streamtable.algebra.operators import Constant, Operator
from streamtable.differentiate.deltas import Deltas

__all__ = ["delta", "reads", "refuses"]


def refuses(_: Operator) -> str | None:
    return None


def reads(_: Operator) -> str:
    return "nothing"


def delta(_constant: Constant, _: Deltas) -> None:
    return None
