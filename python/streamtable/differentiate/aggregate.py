"""Delta of GROUP BY, of a global aggregate, and of SELECT DISTINCT.

    D(agg(A)) = sum over affected groups g of  +row(g, state + D(state))  -row(g, state)

The affected groups are the keys in D(A). Their states at the frontier come from the arrangement, or from the stream table itself
where its columns determine the states. A group exists while its count is above 0; the one group of a global aggregate always does.
A group whose counts and sums move by 0, and where no candidate for an extreme came or went, stays and is left out.
Counts and exact sums are linear, so D(state) comes from D(A) alone. An extreme, and the winner of max_by(x, y), stay or make
room for a better one, unless the best was removed. Where a table shows sums and no count of their values, a sum of 0 may stand for
no value, once values were removed. Such states, and all others (see `states`), are computed again from A'
restricted to the groups K that need it. A group's value depends on its own rows only, so this is exact:

    agg(A' semijoin K) = agg(A') semijoin K

DISTINCT is the aggregate without calls: a row exists while its count is above 0.
Refuses: volatile keys, arguments and filters; subqueries; Python aggregate functions that are not deterministic; keys with a
MAP; keys with a collation. Counterexample: of 'x' and 'X' under UTF8_LCASE Spark shows the one whose row it meets first, so that
no group has one row.

Example, where orders changes:

    SELECT customer, count(*) AS n FROM orders GROUP BY customer

becomes

    -- groups_partial
    SELECT customer, d_s0
    FROM (SELECT customer, SUM(weight) AS d_s0 FROM orders_delta GROUP BY customer)
    WHERE (NOT (d_s0 = 0));
    -- groups_merged
    SELECT change.customer AS customer, state.__streamtable_file AS __streamtable_file,
           state.__streamtable_row AS __streamtable_row, state.s0 AS old_s0, change.d_s0 AS d_s0,
           FALSE AS __recompute
    FROM groups_partial AS change
    LEFT JOIN groups_state AS state ON change.customer <=> state.customer;
    -- groups_moved
    SELECT *, NOT (old_s0 <=> new_s0) AS __changed
    FROM (
      SELECT change.customer AS customer, change.__streamtable_file AS __streamtable_file,
             change.__streamtable_row AS __streamtable_row, change.old_s0 AS old_s0,
             COALESCE(change.old_s0, 0) + COALESCE(change.d_s0, 0) AS new_s0
      FROM groups_merged AS change
    ) AS moved;
    -- groups_delta
    SELECT customer, old_s0 AS n, -1 AS weight FROM groups_moved WHERE (NOT old_s0 IS NULL) AND __changed
    UNION ALL
    SELECT customer, new_s0 AS n, 1 AS weight FROM groups_moved WHERE new_s0 > 0 AND __changed;
"""

from __future__ import annotations

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import Aggregate, Operator, StoredRows
from streamtable.algebra.orders import is_open
from streamtable.differentiate.deltas import Deltas, Moved
from streamtable.differentiate.scalars import refusal
from streamtable.differentiate.states import Kind, states_of

__all__ = ["delta", "left_open", "reads", "refuses"]


def refuses(operator: Aggregate) -> str | None:
    for key in operator.keys:
        if "COLLATE" in key.value.type:
            return (
                f"a collation groups by {key.name}, and Spark shows the one of its equal spellings that it meets first, which is "
                "left open; a key of plain text, such as lower(CAST(... AS STRING)), is maintained"
            )
        if "MAP" in key.value.type:
            return f"groups by {key.name} are not maintained: values of type {key.value.type} cannot be compared"
    scalars = [key.value for key in operator.keys]
    for each in operator.calls:
        scalars += [each.value, *each.arguments, *([each.filter] if each.filter else [])]
    return refusal(scalars)


def left_open(operator: Aggregate) -> str | None:
    """Name the calls whose value depends on the order of rows. They are computed again with their group, as any VALUE."""
    calls = [each.value.text for each in operator.calls if is_open(each.function, each.value.text, each.any_order)]
    if not calls:
        return None
    return f"the value of {', '.join(calls)} depends on the order of rows, which Spark leaves open: a refresh may change it"


def reads(operator: Aggregate) -> str:
    kinds = {state.kind for state in states_of(operator)}
    if Kind.VALUE in kinds:
        return "the changed rows of its input, and the stored states and all rows of their groups"
    again = {Kind.EXTREME: "an extreme", Kind.TOTAL: "values and have a sum of 0"}
    lost = " or ".join(what for kind, what in again.items() if kind in kinds)
    rows = f", and all rows of groups that lost {lost}" if lost else ""
    return f"the changed rows of its input, and the stored states of their groups{rows}"


def delta(operator: Aggregate, deltas: Deltas) -> Operator | None:
    """Leave the work to an `AggregateStep`; the operators above read its stored result."""
    evaluated = [*(key.value for key in operator.keys), *(each.value for each in operator.calls)]
    changed = deltas.settled(operator.child, evaluated)
    if changed is None:
        return None
    deltas.steps.append(Moved(operator, changed, deltas.new(operator.child)))
    return StoredRows(f"{deltas.arrangements[operator]}_delta", (*operator.columns, WEIGHT))
