"""Delta of WITH RECURSIVE, level by level (semi-naive).

    R0 = B,  R(k+1) = S(Rk)
    D(R0) = D(B),  D(R(k+1)) = S'(D(Rk)) + [ S'(Rk) - S(Rk) ]

where B is the anchor, S the step at the frontier, S' the step at the target, and Rk the level k at the frontier. The arrangement
stores the levels. S is linear in Rk, so S'(Rk + D(Rk)) = S'(Rk) + S'(D(Rk)). The bracket is the delta of S by its tables alone.
A row occurs as often as its levels say, so a retraction needs no search for other derivations. Each level is netted before the
next; otherwise rows that come and go at once would go round in a cycle. So the delta ends where both recursions end.
A step that is not linear, or whose rows cannot be counted, is computed as a whole: D(R) = R' - R.
Source: Bancilhon's semi-naive evaluation, with weights as in DBSP (Budiu et al., section 6, nested streams).
Refuses: nothing.

Example, where folders changes:

    WITH RECURSIVE below AS (SELECT folder, parent FROM folders WHERE parent = 0 UNION ALL SELECT folders.folder,
    below.parent FROM below JOIN folders ON folders.parent = below.folder) SELECT * FROM below

becomes

    -- groups: rows that arrive at their levels
    SELECT folder AS folder_found, parent AS parent_found, CAST(0 AS INT) AS __streamtable_level, weight
    FROM folders_delta
    WHERE parent = 0
    UNION ALL
    SELECT folders_folder AS folder_found, parent_before AS parent_found,
           CAST((__streamtable_level + 1) AS INT) AS __streamtable_level, weight
    FROM (SELECT folder AS folders_folder, parent AS folders_parent, weight FROM folders_delta)
    INNER JOIN (
      SELECT folder_found AS folder_before, parent_found AS parent_before, __streamtable_level
      FROM groups_old
      LATERAL VIEW EXPLODE(ARRAY_REPEAT(0, CAST(__streamtable_times AS INT))) generated AS __streamtable_copy
    ) ON folders_parent = folder_before;
    -- groups: what a change of one level makes of the next
    SELECT folders_folder AS folder_found, parent_before AS parent_found,
           CAST((__streamtable_level + 1) AS INT) AS __streamtable_level, weight
    FROM below
    INNER JOIN (SELECT folder AS folders_folder, parent AS folders_parent FROM folders_new)
      ON folders_parent = folder_before;
"""

from __future__ import annotations

from streamtable.algebra.columns import WEIGHT, itself
from streamtable.algebra.operators import Operator, Project, Recursion, StoredRows, WorkingTable
from streamtable.algebra.recursion import counted, over, stored_rows
from streamtable.algebra.trees import walk
from streamtable.differentiate.deltas import Deltas, Moved, Recursed, difference, total

__all__ = ["delta", "reads", "reads_all", "refuses"]


def refuses(_: Recursion) -> str | None:
    return None


def reads_all(operator: Recursion) -> str | None:
    return None if counted(operator) else "it is computed as a whole, before and after"


def reads(_: Recursion) -> str:
    return "the stored levels, the changed rows of the tables, and the rows that the step makes of both"


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
    return Project(changes, tuple(itself(c) for c in (*operator.columns, WEIGHT)))  # without the levels
