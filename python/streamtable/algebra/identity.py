"""Identity of rows: the one idea of what "the same value" is.

Two values are the same when nothing in SQL tells them apart, at any depth: the two zeros of floats differ, all NaNs are one;
strings are their bytes, whatever a collation holds equal; a map is its entries in their order; one month is not 30 days; a variant
is its schema and its JSON. Groups, joins and DISTINCT go by Spark's equality instead, because that is what a query says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from streamtable.algebra.columns import Column
from streamtable.sql.builder import alias, call, column

__all__ = ["comparable", "identity", "rows", "stored_as_key", "told_apart"]

_SPARK_IS_LOOSE = re.compile(
    r"\b(FLOAT|DOUBLE|MAP|VARIANT|COLLATE|GEOGRAPHY|GEOMETRY|INTERVAL(?! (YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)))\b", re.IGNORECASE
)
_WITHOUT_FORM = re.compile(r"\b(GEOGRAPHY|GEOMETRY)\b", re.IGNORECASE)


def comparable(spark_type: str) -> bool:
    """Tell whether `<=>` on the type means: the same value."""
    return not _SPARK_IS_LOOSE.search(spark_type)


def stored_as_key(spark_type: str) -> bool:
    """Tell whether a group of an arrangement may be known by values of the type: `<=>` tells them apart, and Delta stores them."""
    return comparable(spark_type) and "INTERVAL" not in spark_type


def identity(value: exp.Expr, spark_type: str) -> exp.Expr | None:
    """Return `value` in a form in which `<=>` and GROUP BY mean: the same value; None when there is no such form."""
    if comparable(spark_type):
        return value
    return None if _WITHOUT_FORM.search(spark_type) else call("st_identity", value)


def told_apart(columns: Iterable[Column]) -> bool:
    """Tell whether the columns have values that can be compared to be the same."""
    return not any(_WITHOUT_FORM.search(c.type) for c in columns)


def rows(columns: Iterable[Column]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return what to select of groups of the same rows, the columns under their ids, and what to group by. Raises TypeError."""
    items: list[exp.Expr] = []
    keys: list[exp.Expr] = []
    for c in columns:
        form = identity(column(c.id), c.type)
        if form is None:
            raise TypeError(f"rows of type {c.type} cannot be told apart")
        plain = isinstance(form, exp.Column)
        items.append(column(c.id) if plain else alias(call("any_value", column(c.id)), c.id))
        keys.append(form)
    return items, keys
