"""Delta of an inner join of any number of inputs.

    D(A1 join ... join An) = sum over i of  A1 join ... join A(i-1) join D(Ai) join A(i+1)' join ... join An'

where A' = A + D(A). Inputs left of the changed one are read at the frontier, those right of it at the target, so every
combination of changes is counted exactly once. Each term starts from its delta, the smallest input, whose weights it keeps, and
goes on along the conjuncts.
Refuses: volatile predicates, because a retraction must find the same partners as the insertion that it
cancels; subqueries.
"""

from __future__ import annotations

from itertools import permutations

from streamtable.algebra.columns import itself
from streamtable.algebra.operators import WEIGHT, Join, Operator, Project, UnionAll
from streamtable.differentiate.deltas import Deltas
from streamtable.differentiate.restrict import equalities, partners
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "reads", "refuses"]


def refuses(operator: Join) -> str | None:
    return refusal(operator.conjuncts)


def reads(operator: Join) -> str:
    of_others = "the rows equal to it in the condition" if _all_compared(operator) else "every row"
    return f"what changed of each input, and {of_others} of the others"


def _all_compared(operator: Join) -> bool:
    """Tell whether every input is compared for equality with another one."""
    compared = {(a, b) for a, b in permutations(range(len(operator.inputs)), 2) if _compared(operator, a, b)}
    return {a for a, _ in compared} == set(range(len(operator.inputs)))


def _compared(operator: Join, a: int, b: int) -> bool:
    return bool(equalities(operator.inputs[a], operator.inputs[b], operator.conjuncts))


def delta(operator: Join, deltas: Deltas) -> Operator | None:
    terms = []
    for n, child in enumerate(operator.inputs):
        changed = deltas.of(child)
        if changed is not None:
            before = [deltas.old(other) for other in operator.inputs[:n]]
            after = [deltas.new(other) for other in operator.inputs[n + 1 :]]
            terms.append(_term(operator, changed, [*before, *after], deltas))
    return UnionAll(tuple(terms), (*operator.columns, WEIGHT)) if terms else None


def _term(operator: Join, changed: Operator, others: list[Operator], deltas: Deltas) -> Operator:
    """Join one changed input to states of the others; the columns come in the order of the join.

    The first of them meets the change itself. What the others can meet of it is picked before they are joined to a result whose
    size nobody knows.
    """
    if len(others) > 1:
        changed = deltas.once(changed)
    _, first, *further = _along_conjuncts(operator, changed, others)
    picked = (partners(changed, other, operator.conjuncts, deltas) for other in further)
    return Project(Join((changed, first, *picked), operator.conjuncts), tuple(itself(c) for c in (*operator.columns, WEIGHT)))


def _along_conjuncts(operator: Join, first: Operator, others: list[Operator]) -> list[Operator]:
    """Order the inputs so that each one, where possible, shares a conjunct with those before it: no needless product."""
    order, left = [first], list(others)
    while left:
        seen = {c.id for each in order for c in each.columns}
        connected = (each for each in left if _connected(operator, seen, {c.id for c in each.columns}))
        following = next(connected, left[0])
        left.remove(following)
        order.append(following)
    return order


def _connected(operator: Join, seen: set[str], ids: set[str]) -> bool:
    return any(
        conjunct.inputs & seen and conjunct.inputs & ids and conjunct.inputs <= seen | ids for conjunct in operator.conjuncts
    )
