"""Netting: the same rows of a Z-set become one row, with the sum of their weights."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from streamtable.algebra.columns import WEIGHT, Column
from streamtable.algebra.identity import rows
from streamtable.sql.builder import alias, call, cast, column, number, select, subquery, table

__all__ = ["NET", "net", "netted"]

NET = "__net"
"""How often a row came, less how often it went."""


def net(columns: Sequence[Column], delta: exp.Subquery | exp.Table, total_as: str = NET) -> exp.Select:
    """Return the query of the rows whose weights do not add up to zero, with their sum. Raises TypeError as `rows` does."""
    items, keys = rows(columns)
    total = call("sum", column(WEIGHT.id))
    query = select([*items, alias(total, total_as)], delta).group_by(*keys, copy=False)
    return query.having(exp.NEQ(this=total.copy(), expression=number(0)), copy=False)


def netted(delta: str, columns: Sequence[Column]) -> exp.Select:
    """Return the query of the delta of that name in which no row both comes and goes.

    A sum of 3 becomes three rows of weight 1: every rule may rely on weights of +1 and -1.
    """
    total = column(WEIGHT.id)  # a column of a source may have the name NET
    units = call("array_repeat", cast(call("signum", total), "BIGINT"), cast(call("abs", total.copy()), "INT"))
    items = [*(column(c.id) for c in columns), alias(call("explode", units), WEIGHT.id)]
    return select(items, subquery(net(columns, table(delta), WEIGHT.id), "net"))
