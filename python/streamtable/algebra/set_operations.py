"""INTERSECT and EXCEPT [ALL] as sums: count each row on both sides, and derive the result from the two counts.

    rows(v) = n1, n2          UnionAll of both sides, counted by a group by of all columns
    INTERSECT ALL             least(n1, n2) times       INTERSECT   once, if both are above 0
    EXCEPT ALL                greatest(n1 - n2, 0)      EXCEPT      once, if n1 > 0 and n2 = 0

Counts are linear, so the cost of a change follows its size. NULL equals NULL, as in GROUP BY.
"""

from __future__ import annotations

from sqlglot import exp

from streamtable.algebra.columns import Call, Column, Item, Scalar, itself, reference
from streamtable.algebra.operators import Aggregate, Filter, Operator, Project, UnionAll
from streamtable.algebra.repeat import repeated
from streamtable.sql.builder import call, cast, column, number

__all__ = ["set_operation"]

_SIDES = ("rows_left", "rows_right")


def set_operation(left: Operator, right: Operator, columns: tuple[Column, ...], intersect: bool, every: bool) -> Operator:
    """Return the tree of `left INTERSECT|EXCEPT [ALL] right`, whose columns are `columns`."""
    names = [f"{side}_{columns[0].id}" for side in _SIDES]
    counted = [Column(name, side, "BIGINT", nullable=False) for name, side in zip(names, _SIDES, strict=True)]
    sides = (_counting(left, columns, counted, (1, 0)), _counting(right, columns, counted, (0, 1)))
    keys = tuple(itself(c) for c in columns)
    sums = tuple(_sum(c) for c in counted)
    totals: list[exp.Expr] = [column(each.id) for each in sums]
    grouped = Aggregate(UnionAll(sides, (*columns, *counted)), keys, sums)
    ids = frozenset(each.id for each in sums)
    if every:
        first, second = totals
        times = call("least", first, second) if intersect else exp.Sub(this=first, expression=second)
        return repeated(grouped, exp.Paren(this=times), columns)
    other = exp.GT if intersect else exp.EQ
    conditions = (
        _condition(exp.GT(this=totals[0], expression=number(0)), ids, f"{_SIDES[0]} > 0"),
        _condition(other(this=totals[1], expression=number(0)), ids, f"{_SIDES[1]} {'>' if intersect else '='} 0"),
    )
    return Project(Filter(grouped, conditions), keys)


def _counting(side: Operator, columns: tuple[Column, ...], counted: list[Column], counts: tuple[int, int]) -> Operator:
    items = [Item(out.id, out.name, reference(c)) for c, out in zip(side.columns, columns, strict=True)]
    for c, count in zip(counted, counts, strict=True):
        items.append(Item(c.id, c.name, Scalar(cast(number(count), c.type), c.type, False, str(count), frozenset())))
    return Project(side, tuple(items))


def _sum(of: Column) -> Call:
    value = Scalar(call("sum", column(of.id)), "BIGINT", True, f"sum({of.name})", frozenset({of.id}))
    return Call(f"sum_{of.id}", value, "Sum", (reference(of),))


def _condition(sql: exp.Expr, inputs: frozenset[str], text: str) -> Scalar:
    return Scalar(sql, "BOOLEAN", True, text, inputs)
