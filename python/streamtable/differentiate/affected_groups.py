"""Delta of an aggregate whose groups are stored nowhere.

    D(agg(A)) = agg(A' semijoin K) - agg(A semijoin K)

K = the groups that occur in D(A). A group's value depends on its own rows only. It reads the rows of affected groups twice, where
`aggregate` merges a change into a stored state: SUBSCRIBE to a query has nowhere to store one.
Without keys, K is everything. Refuses what `aggregate` refuses.
"""

from __future__ import annotations

from streamtable.algebra.operators import Aggregate, Operator
from streamtable.differentiate.aggregate import refuses
from streamtable.differentiate.deltas import Deltas, difference
from streamtable.differentiate.restrict import around, keyed

__all__ = ["delta", "refuses"]


def delta(operator: Aggregate, deltas: Deltas) -> Operator | None:
    keys = [key.value for key in operator.keys]
    changed = deltas.settled(operator.child, keys)
    if changed is None:
        return None
    if keys:
        changed = deltas.once(changed)
        affected = deltas.shared(keyed(changed, keys))
        new, old = around(changed, operator.child, keys, affected, deltas)
    else:
        new, old = deltas.new(operator.child), deltas.old(operator.child)
    return difference(Aggregate(new, operator.keys, operator.calls), Aggregate(old, operator.keys, operator.calls))
