"""Delta of a source table.

    D(T) = T' - T

The table's own change history holds it: each row that came has weight +1, each row that went -1.
Refuses: sources without a change history. The reader of plans makes them `Unsupported`.

Example, where orders changes:

    SELECT * FROM orders

becomes

    SELECT order_id, customer, amount, placed, weight FROM orders_delta;
"""

from __future__ import annotations

from dataclasses import replace

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import Operator, Scan
from streamtable.algebra.sources import Snapshot
from streamtable.differentiate.deltas import Deltas

__all__ = ["delta", "reads", "refuses"]


def refuses(_: Operator) -> str | None:
    return None


def reads(_: Operator) -> str:
    return "the changed rows of the table: from its change data feed where that is on, else from the files that came and went"


def delta(scan: Scan, _: Deltas) -> Operator:
    return replace(scan, snapshot=Snapshot.CHANGE, columns=(*scan.columns, WEIGHT))
