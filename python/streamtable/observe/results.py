"""The parts of answers: columns with types, and rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

__all__ = ["Row", "Rows", "columns"]

Row = tuple[Any, ...]
Rows = list[Row]


def columns(**types: type[DataType]) -> StructType:
    """Return the columns of an answer, in order."""
    return StructType([StructField(name, kind()) for name, kind in types.items()])
