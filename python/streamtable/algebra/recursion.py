"""Recursions by levels: which recursions can be followed from level to level, and how their rows are stored.

    R0 = anchor,  R(k+1) = step(Rk),  the recursion = R0 + R1 + R2 + ...

Spark admits no aggregate over the recursion in its step. So a step with one reference to it is usually linear in it:
step(A + B) = step(A) + step(B). The arrangement of a recursion stores how often each row occurs in each level.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from streamtable.algebra.columns import Call, Column, Item, Scalar, itself, reference
from streamtable.algebra.identity import comparable
from streamtable.algebra.operators import (
    Aggregate,
    Filter,
    Generate,
    Join,
    LeftJoin,
    Operator,
    Project,
    Recursion,
    StoredRows,
    UnionAll,
    WorkingTable,
)
from streamtable.algebra.repeat import repeated
from streamtable.algebra.trees import children, walk, with_children
from streamtable.sql.builder import call, cast, column, number

__all__ = ["LEVEL", "counted", "levelled", "over", "stored_rows"]

LEVEL = Column("__streamtable_level", "__streamtable_level", "INT", nullable=False)
"""The level of a row: the number of steps that made it from the anchor."""

_TIMES = Column("__streamtable_times", "__streamtable_times", "BIGINT", nullable=False)
_NOT_STORED = re.compile(r"\b(INTERVAL|VOID|TIME)\b")


def levelled(recursion: Recursion) -> Recursion | None:
    """Return the recursion with the last column LEVEL; None when its step is not known to be linear in its rows."""
    step = _carried(recursion.step)
    if step is None:
        return None
    first = Scalar(cast(number(0), LEVEL.type), LEVEL.type, False, "0", frozenset())
    raised = exp.Add(this=column(LEVEL.id), expression=number(1))
    following = Scalar(cast(exp.Paren(this=raised), LEVEL.type), LEVEL.type, False, "level + 1", frozenset({LEVEL.id}))
    return replace(
        recursion,
        anchor=_renamed(recursion.anchor, recursion, first),
        step=_renamed(step, recursion, following),
        columns=(*recursion.columns, LEVEL),
    )


def counted(recursion: Recursion) -> Aggregate | None:
    """Return the aggregate that is stored for a recursion: rows by level, with their number. None when they cannot be counted."""
    if not all(comparable(c.type) and not _NOT_STORED.search(c.type) for c in recursion.columns):
        return None
    with_level = levelled(recursion)
    if with_level is None:
        return None
    times = Call(_TIMES.id, Scalar(call("count", number(1)), _TIMES.type, False, "count(1)", frozenset()), "Count")
    return Aggregate(with_level, tuple(itself(c) for c in with_level.columns), (times,))


def stored_rows(of: Aggregate, name: str) -> Operator:
    """Return the rows, with their levels, of a recursion whose counts are stored under `name`."""
    return repeated(StoredRows(name, of.columns), column(_TIMES.id), of.child.columns)


def over(step: Operator, loop: WorkingTable, rows: Operator) -> Operator:
    """Return the step over `rows` in place of the working table; the columns of both are in the same order."""
    if step == loop:
        named = zip(loop.columns, rows.columns, strict=True)
        return Project(rows, tuple(Item(c.id, c.name, reference(row)) for c, row in named))
    return with_children(step, tuple(over(child, loop, rows) for child in children(step)))


def _renamed(child: Operator, recursion: Recursion, level: Scalar) -> Operator:
    """Give the rows of the anchor or of the step the ids of the recursion's columns, and their level."""
    named = zip(child.columns, recursion.columns, strict=False)  # the step has the level of the rows before as well
    return Project(child, (*(Item(c.id, c.name, reference(row)) for row, c in named), Item(LEVEL.id, LEVEL.name, level)))


def _carried(step: Operator) -> Operator | None:
    """Carry the level of the working table up to the root, as the last column; None where an operator on the way is not linear."""
    if isinstance(step, WorkingTable):
        return replace(step, columns=(*step.columns, LEVEL))
    if not _recurs(step):
        return step
    inputs = tuple(widened for child in children(step) if (widened := _carried(child)) is not None)
    if not _linear(step) or len(inputs) < len(children(step)):
        return None
    match wide := with_children(step, inputs):
        case Project(items=items):
            return replace(wide, items=(*items, itself(LEVEL)))
        case UnionAll(columns=columns):
            return replace(wide, columns=(*columns, LEVEL))
    return Project(wide, tuple(itself(c) for c in (*step.columns, LEVEL)))


def _linear(step: Operator) -> bool:
    """Tell whether an operator above the working table is linear in it: f(A + B) = f(A) + f(B)."""
    match step:
        case Filter() | Project() | Generate():
            return True
        case Join(inputs):
            return sum(map(_recurs, inputs)) == 1
        case LeftJoin(right=right):
            return not _recurs(right)
        case UnionAll(inputs):
            return all(map(_recurs, inputs))
        case _:
            return False


def _recurs(tree: Operator) -> bool:
    return any(isinstance(node, WorkingTable) for node in walk(tree))
