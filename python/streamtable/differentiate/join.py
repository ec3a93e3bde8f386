"""Delta of an inner join of any number of inputs.

    D(A1 join ... join An) = sum over i of  A1 join ... join A(i-1) join D(Ai) join A(i+1)' join ... join An'

where A' = A + D(A). Inputs left of the changed one are read at the frontier, inputs right of it at the target. So every
combination of changes counts exactly once. Each term starts with its delta, the smallest input, keeps the weights of the delta,
and joins the other inputs along the conjuncts.

    D(C join B) = D(C) join B                                                         where B did not change

C = the inputs that changed and that equalities connect, such as orders and their line items. They are joined first, so B is read
once, not once per changed input. Joins are associative and commutative.
A condition on several inputs may fail on rows that the query never joins, as a division does. Such a condition becomes a filter
above the netted terms.
Refuses: volatile predicates, because a retraction must find the same partners as the insertion that it cancels; subqueries.

Example, where orders and customers change:

    SELECT order_id, country FROM orders JOIN customers ON customer = id

becomes

    SELECT order_id, country, weight
    FROM (
      SELECT order_id, customer, id, country, weight FROM orders_delta INNER JOIN customers_new ON customer = id
      UNION ALL
      SELECT order_id, customer, id, country, weight FROM customers_delta INNER JOIN orders_old ON customer = id
    );
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations

import networkx as nx

from streamtable.algebra.columns import WEIGHT, Scalar, itself
from streamtable.algebra.operators import Filter, Join, Operator, Project, UnionAll
from streamtable.differentiate.deltas import Deltas
from streamtable.differentiate.restrict import equalities, partners
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "reads", "refuses"]


def refuses(operator: Join) -> str | None:
    return refusal(operator.conjuncts)


def reads(operator: Join) -> str:
    of_others = "the rows that can meet them" if _all_compared(operator) else "every row"
    return f"the changed rows of each input, and {of_others} of the others"


def _all_compared(operator: Join) -> bool:
    """Tell whether every input is compared for equality with another one."""
    compared = {(a, b) for a, b in permutations(range(len(operator.inputs)), 2) if _compared(operator, a, b)}
    return {a for a, _ in compared} == set(range(len(operator.inputs)))


def _compared(operator: Join, a: int, b: int) -> bool:
    return bool(equalities(operator.inputs[a], operator.inputs[b], operator.conjuncts))


def delta(operator: Join, deltas: Deltas) -> Operator | None:
    if guarded := _guarded(operator, deltas):
        joined = replace(operator, conjuncts=tuple(each for each in operator.conjuncts if each not in guarded))
        changed = deltas.settled(joined, guarded)
        return None if changed is None else Filter(changed, guarded)
    join = _changed_together(operator, deltas)
    terms = []
    for n, child in enumerate(join.inputs):
        changed = deltas.of(child)
        if changed is not None:
            before = [deltas.old(other) for other in join.inputs[:n]]
            after = [deltas.new(other) for other in join.inputs[n + 1 :]]
            again = len(join.inputs) > 2 or isinstance(child, Join)
            term = _term(join, deltas.once(changed) if again else changed, [*before, *after], deltas)
            terms.append(Project(term, tuple(itself(c) for c in (*operator.columns, WEIGHT))))
    return UnionAll(tuple(terms), (*operator.columns, WEIGHT)) if terms else None


def _guarded(operator: Join, deltas: Deltas) -> tuple[Scalar, ...]:
    """Return the conjuncts of several inputs that may fail on rows which the query never joins, if others compare the inputs."""
    if not deltas.small or sum(map(deltas.affected, operator.inputs)) < 2:
        return ()
    guarded = tuple(each for each in operator.conjuncts if each.fails and not _of_one_input(each, operator))
    others = tuple(each for each in operator.conjuncts if each not in guarded)
    return guarded if _all_compared(replace(operator, conjuncts=others)) else ()


def _of_one_input(conjunct: Scalar, operator: Join) -> bool:
    """Tell whether each part of a conjunct reads one input alone, on whose rows the query evaluates it too."""
    ids = [{c.id for c in child.columns} for child in operator.inputs]
    return all(any(part.inputs <= each for each in ids) for part in conjunct.sides or (conjunct,))


def _changed_together(operator: Join, deltas: Deltas) -> Join:
    """Join the changed inputs that are compared with each other into one input, unless all inputs changed."""
    changed = [n for n, child in enumerate(operator.inputs) if deltas.affected(child)]
    if len(changed) == len(operator.inputs):
        return operator
    compared = nx.Graph(pair for pair in combinations(changed, 2) if _compared(operator, *pair))
    joined, conjuncts = [], operator.conjuncts
    for together in nx.connected_components(compared):
        members = tuple(operator.inputs[n] for n in sorted(together))
        ids = {c.id for each in members for c in each.columns}
        within = tuple(each for each in conjuncts if each.inputs and each.inputs <= ids)
        conjuncts = tuple(each for each in conjuncts if each not in within)
        joined.append(Join(members, within))
    alone = (child for n, child in enumerate(operator.inputs) if n not in compared)
    return Join((*joined, *alone), conjuncts)


def _term(join: Join, changed: Operator, others: list[Operator], deltas: Deltas) -> Join:
    """Join one changed input to states of the others.

    The first of the others meets the change itself. The further ones are first reduced to rows that can meet the change, because
    the size of the result so far is unknown.
    """
    _, first, *further = _along_conjuncts(join, changed, others)
    picked = (partners(changed, other, join.conjuncts, deltas) for other in further)
    return Join((changed, first, *picked), join.conjuncts)


def _along_conjuncts(operator: Join, first: Operator, others: list[Operator]) -> list[Operator]:
    """Order the inputs so that each one shares a conjunct with an earlier one, where possible: no needless product."""
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
