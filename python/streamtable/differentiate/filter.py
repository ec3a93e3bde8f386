"""Delta of a filter.

    D(filter(A)) = filter(D(A))

A filter is linear: it looks at one row at a time. It lets a retraction through exactly when it let the row through.
A filter that reads the clock is another filter at the target. Rows that stayed enter or leave because time passed:

    D(filter(A)) = filter'(D(A))  +  (A where filter' and not filter)  -  (A where filter and not filter')

Refuses: volatile predicates; subqueries.

Example, where orders changes:

    SELECT order_id, amount FROM orders WHERE amount > 10

becomes

    SELECT order_id, amount, weight FROM orders_delta WHERE amount > 10;
"""

from __future__ import annotations

from sqlglot import exp

from streamtable.algebra.columns import Scalar
from streamtable.algebra.operators import Filter, Operator
from streamtable.algebra.sources import Snapshot
from streamtable.differentiate.deltas import Deltas, difference, total
from streamtable.differentiate.scalars import refusal, when_clocked
from streamtable.sql.builder import all_of, any_of

__all__ = ["delta", "reads", "refuses"]


def refuses(operator: Filter) -> str | None:
    return refusal(operator.conjuncts, clock=True)


def reads(operator: Filter) -> str | None:
    return when_clocked(operator.conjuncts)


def delta(operator: Filter, deltas: Deltas) -> Operator | None:
    changed = deltas.settled(operator.child, operator.conjuncts)
    passed = None if changed is None else Filter(changed, operator.conjuncts)
    if not deltas.ticks(operator):
        return passed
    stayed = deltas.old(operator.child)
    entered = _passing(stayed, operator.conjuncts, Snapshot.TARGET, Snapshot.FRONTIER)
    left = _passing(stayed, operator.conjuncts, Snapshot.FRONTIER, Snapshot.TARGET)
    return total(passed, difference(entered, left))


def _passing(rows: Operator, conjuncts: tuple[Scalar, ...], at: Snapshot, but_not_at: Snapshot) -> Operator:
    """Keep the rows that pass at one instant and not at the other, by two filters that can each prune files by statistics."""
    condition = all_of(conjunct.sql.copy() for conjunct in conjuncts)
    unknown = exp.Is(this=exp.Paren(this=condition), expression=exp.Null())
    fails = any_of([exp.Not(this=exp.Paren(this=condition.copy())), unknown])
    inputs = frozenset(name for conjunct in conjuncts for name in conjunct.inputs)
    failing = Scalar(fails, "BOOLEAN", False, "did not pass", inputs, clock=True)
    return Filter(Filter(rows, conjuncts, at), (failing,), but_not_at)
