"""Delta of a generator (explode, LATERAL VIEW, table functions).

    D(generate(A)) = generate(D(A))

A generator makes its rows from one row of A alone, so it is linear; OUTER keeps a row without elements, which is as local.
Refuses: volatile generators, subqueries.
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
