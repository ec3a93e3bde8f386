"""Rows repeated by a count."""

from __future__ import annotations

from sqlglot import exp

from streamtable.algebra.columns import Column, Scalar, itself
from streamtable.algebra.operators import Generate, Operator, Project
from streamtable.sql.builder import call, cast, number

__all__ = ["repeated"]


def repeated(counts: Operator, times: exp.Expr, columns: tuple[Column, ...]) -> Operator:
    """Return the `columns` of each row `times` times; `times` is an expression over the other columns."""
    repeats = call("explode", call("array_repeat", number(0), cast(times, "INT")))
    generator = Scalar(repeats, "INT", False, "times", frozenset(c.name for c in times.find_all(exp.Column)))
    rows = Generate(counts, generator, False, (Column("__streamtable_copy", "copy", "INT"),))
    return Project(rows, tuple(itself(c) for c in columns))
