"""Stream tables that need no arrangement, because their own columns hold the states of their aggregate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from streamtable.algebra.columns import Call
from streamtable.algebra.operators import Aggregate, Operator, Project
from streamtable.algebra.trees import reads_clock, replaced
from streamtable.differentiate.states import Kind, needs_of, states_of

__all__ = ["uncounted", "visible_states"]


def uncounted(tree: Operator) -> Operator:
    """Let sums do without the counts of their values, where the table's columns hold all states then and do not otherwise.

    In SELECT k, count(*), sum(x), nothing shows how many x are not NULL. See TOTAL in `states`.
    """
    aggregate = tree
    while isinstance(aggregate, Project):
        aggregate = aggregate.child
    if not isinstance(aggregate, Aggregate) or visible_states(tree):
        return tree
    calls = tuple(replace(call, uncounted=True) if _counts_values(call) else call for call in aggregate.calls)
    lighter = replaced(tree, aggregate, replace(aggregate, calls=calls))
    return lighter if visible_states(lighter) else tree


def _counts_values(call: Call) -> bool:
    """Tell whether the state of a sum has a count of values beside it that differs from the count of rows."""
    count, *sums = needs_of(call)
    stored = any(each.kind is Kind.SUM and not each.column.type.startswith("INTERVAL") for each in sums)
    return call.function == "Sum" and stored and count.call is not None


def visible_states(tree: Operator) -> tuple[Aggregate, Mapping[str, int]] | None:
    """Return the aggregate at the root and, for each of its key and state columns, the position of the output column that holds it.

    None when the root is not an aggregate (up to renaming of columns), or when the output does not hold some key or state. A
    HAVING hides groups; the flag of an expectation that reads the clock changes groups that do not move; sum(x) without
    count(*) does not tell when the group is gone.
    """
    columns: list[str | None] = [c.id for c in tree.columns]
    while isinstance(tree, Project):
        if reads_clock(tree):  # the flag of an expectation: its delta has rows of groups that did not move
            return None
        below = {item.id: item.value.column for item in tree.items}
        columns = [below[name] if name is not None else None for name in columns]
        tree = tree.child
    if not isinstance(tree, Aggregate) or not tree.keys or None in columns:
        return None
    position = {name: n for n, name in reversed(list(enumerate(columns)))}
    holders: dict[tuple[object, ...], str] = {}
    for call in tree.calls:
        key = needs_of(call)[-1].key
        # avg(x) is computed from its states; it does not hold one.
        if call.function != "Average":
            holders.setdefault(key, call.id)
    places = {key.id: position.get(key.id) for key in tree.keys}
    places |= {state.column.id: position.get(holders.get(state.key, "")) for state in states_of(tree)}
    return (tree, {name: at for name, at in places.items() if at is not None}) if None not in places.values() else None
