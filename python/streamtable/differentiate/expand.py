"""Delta of GROUPING SETS, CUBE, ROLLUP and UNPIVOT, which repeat each row in several forms.

    D(expand(A)) = expand(D(A))

The operator looks at one row at a time, like a projection. An aggregate above it does the rest of GROUPING SETS.
Refuses: volatile expressions; subqueries.

Example, where orders changes:

    SELECT customer, amount, count(*) AS n FROM orders GROUP BY GROUPING SETS ((customer), (amount))

becomes

    SELECT customer, amount, grouping_id, d_s0
    FROM (
      SELECT customer, amount, grouping_id, SUM(weight) AS d_s0
      FROM (
        SELECT __place0 AS customer, __place1 AS amount, __place2 AS grouping_id, __place3 AS weight
        FROM orders_delta
        LATERAL VIEW INLINE(ARRAY(NAMED_STRUCT('__place0', customer, '__place1', CAST(NULL AS INT), '__place2', 0,
          '__place3', weight), NAMED_STRUCT('__place0', CAST(NULL AS INT), '__place1', amount, '__place2', 1,
          '__place3', weight))) generated AS __place0, __place1, __place2, __place3
      )
      GROUP BY customer, amount, grouping_id
    )
    WHERE (NOT (d_s0 = 0));
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
