"""Delta of WITH RECURSIVE, level by level (semi-naive).

    R0 = B,  R(k+1) = S(Rk)
    D(R0) = D(B),  D(R(k+1)) = S'(D(Rk)) + [ S'(Rk) - S(Rk) ]

where B is the anchor, S the step at the frontier and S' the step at the target; Rk, the level k at the frontier, comes from the
arrangement. S is linear in Rk, so S'(Rk + D(Rk)) = S'(Rk) + S'(D(Rk)), and the bracket is the delta of S by its tables alone. It
holds level by level, so retractions need no search for other derivations: a row is there as often as its levels say. It ends
where both recursions end, because each level is netted before the next (rows that come and go at once would go round in a cycle).
A step that is not linear in its rows, or whose rows cannot be counted, is computed as a whole: D(R) = R' - R.
Source: Bancilhon's semi-naive evaluation, with weights as in DBSP (Budiu et al., section 6, nested streams).
"""

from __future__ import annotations

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import Operator, Recursion, StoredRows, WorkingTable
from streamtable.algebra.recursion import counted, over, stored_rows
from streamtable.algebra.trees import walk
from streamtable.differentiate.deltas import Deltas, Moved, Recursed, difference, total

__all__ = ["delta", "reads", "reads_all", "refuses"]


def refuses(_: Recursion) -> str | None:
    return None


def reads_all(operator: Recursion) -> str | None:
    return None if counted(operator) else "it is computed as a whole, before and after"


def reads(_: Recursion) -> str:
    return "the stored levels, what changed of the tables, and what the step makes of both"


def delta(operator: Recursion, deltas: Deltas) -> Operator | None:
    kept = counted(operator)
    if kept is None or kept not in deltas.arrangements:
        return difference(deltas.new(operator), deltas.old(operator))
    name, levels = deltas.arrangements[kept], kept.child
    assert isinstance(levels, Recursion)
    (working,) = {node for node in walk(levels.step) if isinstance(node, WorkingTable)}
    known = stored_rows(kept, f"{name}_old")
    arriving = total(deltas.of(levels.anchor), deltas.of(over(levels.step, working, known)))
    step = Deltas(frozenset({operator.loop}), {}, deltas.rules, small=False).of(deltas.new(levels.step))
    if arriving is None or step is None:
        return None
    changes = StoredRows(f"{name}_changes", (*levels.columns, WEIGHT))
    deltas.steps += [Recursed(name, levels, working, arriving, step), Moved(kept, changes, levels)]
    return changes
