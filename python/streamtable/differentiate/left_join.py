"""Delta of LEFT OUTER, SEMI and ANTI joins.

    D(A op B) = D(A) op B'  +  [ (A semijoin K) op (B' semijoin K)  -  (A semijoin K) op (B semijoin K) ]

where B' = B + D(B), and K = the values of D(B) in what the equalities of the condition compare. All three are linear in A: what
becomes of a row of A depends on B alone, so the first term is exact for a changed A (and B' may leave out what no row of D(A) is
equal to). Of the rows of A that stayed, a changed row
of B concerns only those that are equal to it in K; both sides of the difference see the same rows of A and all their partners.
Rows with NULL in K have no partner under `=`; keeping them in the restriction does no harm.
Without an equality (`<`, NOT IN with its NULLs) K is everything: the operator is computed as a whole, before and after, but only
when B changes.
Refuses: volatile conditions; subqueries.
"""

from __future__ import annotations

from streamtable.algebra.columns import WEIGHT, Scalar, itself
from streamtable.algebra.operators import LeftJoin, Operator, Project, UnionAll
from streamtable.differentiate.deltas import Deltas, difference
from streamtable.differentiate.restrict import around, equalities, keyed, partners, restrict
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "linear", "reads", "reads_all", "refuses"]


def refuses(operator: LeftJoin) -> str | None:
    return refusal(operator.conjuncts)


def reads_all(operator: LeftJoin) -> str | None:
    return None if _pairs(operator) else "without an equality to look partners up by, every row is compared, before and after"


def reads(_: LeftJoin) -> str:
    return "what changed of both inputs, and the rows equal to it in the condition of the other"


def delta(operator: LeftJoin, deltas: Deltas) -> Operator | None:
    right = deltas.of(operator.right)
    terms = [linear(operator, deltas), None if right is None else _partners(operator, right, deltas)]
    found = tuple(term for term in terms if term is not None)
    return UnionAll(found, (*operator.columns, WEIGHT)) if found else None


def linear(operator: LeftJoin, deltas: Deltas) -> Operator | None:
    """Return what the changes of the left input make of the right one: the first term."""
    left = deltas.of(operator.left)
    if left is None:
        return None
    left = deltas.once(left)
    others = partners(left, deltas.new(operator.right), operator.conjuncts, deltas)
    joined = LeftJoin(left, others, operator.join_type, operator.conjuncts)
    return Project(joined, tuple(itself(c) for c in (*operator.columns, WEIGHT)))


def _pairs(operator: LeftJoin) -> list[tuple[Scalar, Scalar]]:
    return equalities(operator.left, operator.right, operator.conjuncts)


def _partners(operator: LeftJoin, changed: Operator, deltas: Deltas) -> Operator:
    """What the changed partners make of the rows that stayed."""
    kept = deltas.old(operator.left)
    pairs = _pairs(operator)
    if pairs:
        of_left: list[Scalar] = [a for a, _ in pairs]
        of_right: list[Scalar] = [b for _, b in pairs]
        changed = deltas.once(changed)
        affected = deltas.shared(keyed(changed, of_right))
        kept = deltas.shared(restrict(kept, of_left, affected))
        new, old = around(changed, operator.right, of_right, affected, deltas)
    else:
        new, old = deltas.new(operator.right), deltas.old(operator.right)
    before = LeftJoin(kept, old, operator.join_type, operator.conjuncts)
    after = LeftJoin(kept, new, operator.join_type, operator.conjuncts)
    return difference(after, before)
