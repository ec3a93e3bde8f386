"""Delta of a projection.

    D(project(A)) = project(D(A))

A projection is linear. Rows that it makes equal stay separate rows of the bag, each with its weight.
A projection that reads the clock gives other values at the target, also for rows that stayed:

    D(project(A)) = project'(D(A))  +  project'(C) - project(C)

where C = the rows of A for which both projections differ.
Refuses: volatile expressions; subqueries.

Example, where orders changes:

    SELECT order_id, amount * 2 AS twice FROM orders

becomes

    SELECT order_id, amount * 2 AS twice, weight FROM orders_delta;
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from streamtable.algebra.columns import WEIGHT, Item, Scalar, itself, reference
from streamtable.algebra.identity import identity
from streamtable.algebra.operators import Filter, Operator, Project
from streamtable.algebra.sources import Snapshot
from streamtable.differentiate.deltas import Deltas, difference, total
from streamtable.differentiate.scalars import refusal, when_clocked
from streamtable.sql.builder import any_of, column, equal

__all__ = ["delta", "reads", "refuses"]


def refuses(operator: Project) -> str | None:
    return refusal((item.value for item in operator.items), clock=True)


def reads(operator: Project) -> str | None:
    return when_clocked(item.value for item in operator.items)


def delta(operator: Project, deltas: Deltas) -> Operator | None:
    changed = deltas.settled(operator.child, (item.value for item in operator.items))
    projected = None if changed is None else Project(changed, (*operator.items, itself(WEIGHT)))
    if not deltas.ticks(operator):
        return projected
    differing = deltas.shared(_differing(operator, deltas.old(operator.child)))
    return total(
        projected, difference(*(_picked(operator, differing, snapshot) for snapshot in (Snapshot.TARGET, Snapshot.FRONTIER)))
    )


def _differing(operator: Project, stayed: Operator) -> Operator:
    """Return the rows whose values differ between the two instants, with both values of each item that reads the clock."""
    clocked = [item for item in operator.items if item.value.clock]
    wide = Project(stayed, (*map(itself, stayed.columns), *_at(clocked, Snapshot.FRONTIER)), Snapshot.FRONTIER)
    wide = Project(wide, (*map(itself, wide.columns), *_at(clocked, Snapshot.TARGET)), Snapshot.TARGET)
    unequal = []
    for item in clocked:
        old, new = (identity(column(_id(item, snapshot)), item.value.type) for snapshot in (Snapshot.FRONTIER, Snapshot.TARGET))
        if old is None or new is None:
            return wide
        unequal.append(exp.Not(this=exp.Paren(this=equal(old, new))))
    condition = Scalar(any_of(unequal), "BOOLEAN", False, "the clock makes a difference", frozenset(c.id for c in wide.columns))
    return Filter(wide, (condition,))


def _picked(operator: Project, differing: Operator, snapshot: Snapshot) -> Operator:
    """Compute the projection from rows that already have the items that read the clock as columns."""
    made = {c.id: c for c in differing.columns}
    return Project(
        differing,
        tuple(replace(i, value=reference(made[_id(i, snapshot)])) if i.value.clock else i for i in operator.items),
    )


def _at(items: list[Item], snapshot: Snapshot) -> Iterator[Item]:
    return (replace(item, id=_id(item, snapshot)) for item in items)


def _id(item: Item, snapshot: Snapshot) -> str:
    return f"{item.id}__{snapshot.value}"
