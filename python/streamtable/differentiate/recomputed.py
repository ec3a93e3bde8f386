"""Delta of a part of the query that only Spark can compute, as a whole: WITH RECURSIVE.

    D(f(A)) = f(A') - f(A)

which holds for whatever is a function of its sources. It costs two evaluations, whatever changed; rows that stay cancel out, so
what is above sees the change alone.
Refuses: volatile expressions anywhere in it.
"""

from __future__ import annotations

from streamtable.algebra.operators import Operator, Recomputed
from streamtable.differentiate.deltas import Deltas, difference

__all__ = ["delta", "reads_all", "refuses"]


def refuses(operator: Recomputed) -> str | None:
    return f"volatile expression {operator.volatile}: it would not compute the same again" if operator.volatile else None


def reads_all(_: Recomputed) -> str:
    return "it is computed as a whole, before and after"


def delta(operator: Recomputed, deltas: Deltas) -> Operator:
    return difference(deltas.new(operator), deltas.old(operator))
