"""Delta of an aggregate whose groups are stored nowhere.

    D(agg(A)) = agg(A' semijoin K) - agg(A semijoin K)

where K = the groups that occur in D(A). A group's value depends on its own rows only. Without keys, K is everything.
SUBSCRIBE to a query uses this rule, because it has no place to store states. It reads the rows of affected groups twice, where
`aggregate` merges the change into stored states.
Refuses: as `aggregate` does.

Example, where orders changes much:

    SELECT customer, count(*) AS n FROM orders GROUP BY customer

becomes

    -- shared_0
    SELECT customer AS __key0 FROM orders_delta;
    -- delta
    SELECT customer, COUNT(*) AS n, 1 AS weight
    FROM (
      SELECT kept.customer
      FROM orders_new AS kept
      LEFT SEMI JOIN (SELECT __key0 AS customer FROM shared_0) AS affected ON kept.customer <=> affected.customer
    )
    GROUP BY customer
    UNION ALL
    SELECT customer, COUNT(*) AS n, -1 AS weight
    FROM (
      SELECT kept.customer
      FROM orders_old AS kept
      LEFT SEMI JOIN (SELECT __key0 AS customer FROM shared_0) AS affected ON kept.customer <=> affected.customer
    )
    GROUP BY customer;
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
