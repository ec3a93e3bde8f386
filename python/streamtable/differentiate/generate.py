"""Delta of a generator (explode, LATERAL VIEW, table functions).

    D(generate(A)) = generate(D(A))

A generator makes its rows from one row of A alone, so it is linear. OUTER adds a row without elements by that row alone.
Refuses: volatile generators; subqueries.

Example, where baskets changes:

    SELECT basket, product FROM baskets LATERAL VIEW explode(products) t AS product

becomes

    SELECT basket, product, weight FROM baskets_delta LATERAL VIEW EXPLODE(products) generated AS product;
"""

from __future__ import annotations

from streamtable.algebra.columns import WEIGHT, itself
from streamtable.algebra.operators import Generate, Operator, Project
from streamtable.differentiate.deltas import Deltas
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "refuses"]


def refuses(operator: Generate) -> str | None:
    return refusal((operator.generator,))


def delta(operator: Generate, deltas: Deltas) -> Operator | None:
    changed = deltas.settled(operator.child, (operator.generator,))
    if changed is None:
        return None
    made = Generate(changed, operator.generator, operator.outer, operator.generated)
    return Project(made, tuple(itself(c) for c in (*operator.columns, WEIGHT)))
