"""Delta of window functions.

    D(window(A)) = window(A' semijoin K) - window(A semijoin K)

K = the partitions that occur in D(A). The value of a window function in a row depends on the rows of its partition only, so what
is computed from the restricted input is what the whole input would give for these partitions; all others stay as they are.
Without PARTITION BY, K is everything. Where all frames end with the current row, see `running`.
Orders that leave ties open are completed when the query is read (the shim's `Ties`).
Refuses: volatile functions and partitions; subqueries.
"""

from __future__ import annotations

from dataclasses import replace

from streamtable.algebra.operators import Operator, Window
from streamtable.differentiate import running
from streamtable.differentiate.deltas import Deltas, difference
from streamtable.differentiate.restrict import around, keyed
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "reads", "reads_all", "refuses"]


def refuses(operator: Window) -> str | None:
    return refusal([*operator.partition, *(item.value for item in operator.items)])


def reads_all(operator: Window) -> str | None:
    if operator.partition or running.applies(operator):
        return None
    return "without PARTITION BY every row is computed, before and after"


def reads(operator: Window) -> str:
    rows = "the rows from the first change on" if running.applies(operator) else "all rows"
    return f"what changed of its input, and {rows}{' of these partitions' if operator.partition else ''}"


def delta(operator: Window, deltas: Deltas) -> Operator | None:
    changed = deltas.of(operator.child)
    if changed is None:
        return None
    changed = deltas.once(changed)
    if deltas.small and running.applies(operator):
        return running.delta(operator, changed, deltas)
    if operator.partition:
        touched = deltas.shared(keyed(changed, operator.partition))
        new, old = around(changed, operator.child, operator.partition, touched, deltas)
    else:
        new, old = deltas.new(operator.child), deltas.old(operator.child)
    return difference(replace(operator, child=new), replace(operator, child=old))
