"""Delta of window functions.

    D(window(A)) = window(A' semijoin K) - window(A semijoin K)

where K = the partitions that occur in D(A). A window function sees the rows of its own partition only. So the restricted input
gives the values of the partitions K, and all other partitions stay as they are.
Several windows are computed at once when their partitions hold those of the lowest window; then K = the partitions of the lowest.
Without PARTITION BY, K is everything. Where all frames of these windows end with the current row, `running` applies.
The shim's `Ties` completes orders that leave ties open.
Refuses: volatile functions and partitions; subqueries.

Example, where orders changes much:

    SELECT order_id, customer, count(*) OVER (PARTITION BY customer) AS n FROM orders

becomes

    -- shared_0
    SELECT customer AS __key0 FROM orders_delta;
    -- delta
    SELECT order_id, customer, COUNT(*) OVER (PARTITION BY customer) AS n, 1 AS weight
    FROM (
      SELECT kept.order_id, kept.customer
      FROM orders_new AS kept
      LEFT SEMI JOIN (SELECT __key0 AS customer FROM shared_0) AS affected ON kept.customer <=> affected.customer
    )
    UNION ALL
    SELECT order_id, customer, COUNT(*) OVER (PARTITION BY customer) AS n, -1 AS weight
    FROM (
      SELECT kept.order_id, kept.customer
      FROM orders_old AS kept
      LEFT SEMI JOIN (SELECT __key0 AS customer FROM shared_0) AS affected ON kept.customer <=> affected.customer
    );
"""

from __future__ import annotations

from dataclasses import replace

from streamtable.algebra.operators import Operator, Project, Window
from streamtable.algebra.trees import children, reads_clock, replaced
from streamtable.differentiate import running
from streamtable.differentiate.deltas import Deltas, difference
from streamtable.differentiate.restrict import around, keyed
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "reads", "reads_all", "refuses"]


def refuses(operator: Window) -> str | None:
    return refusal([*operator.partition, *(item.value for item in operator.items)])


def reads_all(operator: Window) -> str | None:
    if operator.partition or _run(operator, _lowest(operator)):
        return None
    return "without PARTITION BY every row is computed, before and after"


def reads(operator: Window) -> str:
    rows = "the rows from the first change on" if _run(operator, _lowest(operator)) else "all rows"
    return f"the changed rows of its input, and {rows}{' of their partitions' if operator.partition else ''}"


def delta(operator: Window, deltas: Deltas) -> Operator | None:
    low = _lowest(operator)
    if deltas.small and _run(operator, low):
        changed = deltas.of(operator.child)
        return None if changed is None else running.delta(operator, deltas.once(changed), deltas)
    changed = deltas.of(low.child)
    if changed is None:
        return None
    changed = deltas.once(changed)
    if low.partition:
        affected = deltas.shared(keyed(changed, low.partition))
        new, old = around(changed, low.child, low.partition, affected, deltas)
    else:
        new, old = deltas.new(low.child), deltas.old(low.child)
    after, before = (replaced(operator, low, replace(low, child=rows)) for rows in (new, old))
    return difference(after, before)


def _run(operator: Operator, low: Window) -> bool:
    """Tell whether all windows from `operator` down to `low` run. Any other one computes the whole partition."""
    while operator is not low:
        if isinstance(operator, Window) and not running.applies(operator):
            return False
        (operator,) = children(operator)
    return running.applies(low)


def _lowest(operator: Window) -> Window:
    """Return the lowest window whose partitions contain those of all windows from there up to `operator`."""
    low, child = operator, operator.child
    wanted = {key.column for key in operator.partition}
    while isinstance(child, (Window, Project)) and not reads_clock(child):
        if isinstance(child, Window):
            keys = {key.column for key in child.partition}
            if None in keys or not keys <= wanted:
                break
            low, wanted = child, keys
        else:
            wanted &= {item.id for item in child.items if item.value.column == item.id}
        child = child.child
    return low
