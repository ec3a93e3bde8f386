"""Delta of GROUPING SETS, CUBE, ROLLUP and UNPIVOT, which repeat each row in several forms.

    D(expand(A)) = expand(D(A))

It looks at one row at a time, like a projection.
Refuses: volatile expressions; subqueries.
"""

from __future__ import annotations

from dataclasses import replace

from streamtable.algebra.columns import WEIGHT, itself
from streamtable.algebra.operators import Expand, Operator
from streamtable.differentiate.deltas import Deltas
from streamtable.differentiate.scalars import refusal

__all__ = ["delta", "refuses"]


def refuses(operator: Expand) -> str | None:
    return refusal(value for projection in operator.projections for value in projection)


def delta(operator: Expand, deltas: Deltas) -> Operator | None:
    changed = deltas.settled(operator.child, (value for projection in operator.projections for value in projection))
    if changed is None:
        return None
    weight = itself(WEIGHT).value
    projections = tuple((*projection, weight) for projection in operator.projections)
    return replace(operator, child=changed, projections=projections, columns=(*operator.columns, WEIGHT))
