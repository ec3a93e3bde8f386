"""Identity of rows: the one definition of "the same value".

Two values are the same when nothing in SQL tells them apart, at any depth:

- the two zeros of floats differ, all NaNs are the same;
- strings are the same when their bytes are, whatever a collation says;
- maps are the same when their entries are, in the same order;
- one month is not 30 days;
- variants are the same when their schema and their JSON are.

Groups, joins and DISTINCT use Spark's equality instead, because the query asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

from streamtable.algebra.columns import Column
from streamtable.sql.builder import alias, call, column

__all__ = ["comparable", "identity", "kept", "rows", "stored_as_key", "told_apart"]

_SPARK_IS_LOOSE = re.compile(
    r"\b(FLOAT|DOUBLE|MAP|VARIANT|COLLATE|GEOGRAPHY|GEOMETRY|INTERVAL(?! (YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)))\b", re.IGNORECASE
)
_NOT_KEPT = re.compile(r"INTERVAL|COLLATE|`|\b(VOID|TIME)\b")
"""Types that Delta does not store, or stores under other names, as it does the fields of structs that need quotes."""

_WITHOUT_FORM = re.compile(r"\b(GEOGRAPHY|GEOMETRY)\b", re.IGNORECASE)


def comparable(spark_type: str) -> bool:
    """Tell whether values of the type that are equal under `<=>` are the same value."""
    return not _SPARK_IS_LOOSE.search(spark_type)


def kept(spark_type: str) -> bool:
    """Tell whether Delta stores values of the type that no column of the table has: no struct may have two fields of one name."""
    fields = [name.casefold() for name in re.findall(r"([^\s<,]+):", spark_type)]
    return _NOT_KEPT.search(spark_type) is None and len(set(fields)) == len(fields)


def stored_as_key(spark_type: str) -> bool:
    """Tell whether the type may be a key of an arrangement: `<=>` compares identity, and Delta stores the type."""
    return comparable(spark_type) and kept(spark_type)


def identity(value: exp.Expr, spark_type: str) -> exp.Expr | None:
    """Return `value` in a form whose equality under `<=>` and GROUP BY is identity; None when there is no such form."""
    if comparable(spark_type):
        return value
    return None if _WITHOUT_FORM.search(spark_type) else call("st_identity", value)


def told_apart(columns: Iterable[Column]) -> bool:
    """Tell whether rows of these columns can be compared for identity."""
    return not any(_WITHOUT_FORM.search(c.type) for c in columns)


def rows(columns: Iterable[Column]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return the SELECT list and the keys of a GROUP BY that puts the same rows together. Raises TypeError."""
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
