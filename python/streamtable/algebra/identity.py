"""Identity of rows: which columns Spark can compare as they are, and how the others become comparable without losing anything."""

from __future__ import annotations

import re

from sqlglot import exp

from streamtable.sql.builder import call, cast

__all__ = ["comparable", "identity"]

_INCOMPARABLE = re.compile(r"\b(MAP|VARIANT|COLLATE|GEOGRAPHY|GEOMETRY)\b", re.IGNORECASE)


def comparable(spark_type: str) -> bool:
    """Tell whether `<=>` on the type means: the same value. Maps do not compare, collated text does so too loosely."""
    return not _INCOMPARABLE.search(spark_type)


def identity(value: exp.Expr, spark_type: str) -> exp.Expr | None:
    """Return `value` in a form in which `<=>` and GROUP BY mean: the same value; None when there is no such form.

    Binary zero and negative zero, and all NaNs, are one value, as they are for Spark's own GROUP BY.
    A map is the set of its entries.
    """
    if comparable(spark_type):
        return value
    if spark_type.upper().startswith("STRING COLLATE"):
        return cast(value, "BINARY")
    if spark_type == "VARIANT":
        return call("struct", call("schema_of_variant", value), call("to_json", value.copy()))
    inner = re.fullmatch(r"MAP<(.*)>", spark_type, re.IGNORECASE)
    if inner and comparable(inner[1]):
        return call("array_sort", call("map_entries", value))
    return None
