"""Delta of LEFT OUTER, SEMI and ANTI joins.

    D(A op B) = D(A) op B'  +  [ (A semijoin K) op (B' semijoin K)  -  (A semijoin K) op (B semijoin K) ]

where B' = B + D(B), and K = the values of D(B) in the columns that the equalities of the condition compare.
The operators are linear in A: the result for a row of A depends on B alone. So the first term is exact for a changed A. B' may
leave out rows that equal no row of D(A).
The second term is about rows of A that stayed. A changed row of B concerns only the rows of A that are equal to it in K. Both
sides of the difference read the same rows of A and all partners of these rows.
A row with NULL in K has no partner under `=`; it may stay in the restriction.
Without an equality (`<`, NOT IN with its NULLs) K is everything: a change of B has the whole operator computed, before and after.
Refuses: volatile conditions; subqueries.

Example, where customers changes much:

    SELECT order_id, country FROM orders LEFT JOIN customers ON customer = id

becomes

    -- shared_0
    SELECT id AS __key0 FROM customers_delta;
    -- shared_1
    SELECT kept.order_id, kept.customer
    FROM orders AS kept
    LEFT SEMI JOIN (SELECT __key0 AS customer FROM shared_0) AS affected ON kept.customer <=> affected.customer;
    -- delta
    SELECT order_id, country, weight
    FROM (
      SELECT order_id, customer, id, country, 1 AS weight
      FROM shared_1
      LEFT OUTER JOIN (
        SELECT kept.id, kept.country
        FROM customers_new AS kept
        LEFT SEMI JOIN (SELECT __key0 AS id FROM shared_0) AS affected ON kept.id <=> affected.id
      ) ON customer = id
      UNION ALL
      SELECT order_id, customer, id, country, -1 AS weight
      FROM shared_1
      LEFT OUTER JOIN (
        SELECT kept.id, kept.country
        FROM customers_old AS kept
        LEFT SEMI JOIN (SELECT __key0 AS id FROM shared_0) AS affected ON kept.id <=> affected.id
    ... (all of it: tests/unit/fixtures/rules/left_join.sql)
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
    return "the changed rows of both inputs, and the rows of the other input that can meet them"


def delta(operator: LeftJoin, deltas: Deltas) -> Operator | None:
    right = deltas.of(operator.right)
    terms = [linear(operator, deltas), None if right is None else _partners(operator, right, deltas)]
    found = tuple(term for term in terms if term is not None)
    return UnionAll(found, (*operator.columns, WEIGHT)) if found else None


def linear(operator: LeftJoin, deltas: Deltas) -> Operator | None:
    """Return the first term: the changed rows of the left input, joined to the right input."""
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
    """Return the second term: the rows of the left input that stayed, with their changed partners."""
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
