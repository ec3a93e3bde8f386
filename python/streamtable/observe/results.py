"""The parts of answers: columns with types, and rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import DataType, StructField, StructType

from streamtable.errors import InvalidStatement
from streamtable.language.stream_table.read import MAXIMUM_LIMIT

__all__ = ["Row", "Rows", "columns", "limit_of"]

Row = tuple[Any, ...]
Rows = list[Row]


def columns(**types: type[DataType]) -> StructType:
    """Return the columns of an answer, in order."""
    return StructType([StructField(name, kind()) for name, kind in types.items()])


def limit_of(function: str, text: str | None, usage: str) -> int | None:
    """Return the limit that a call gives. Raises InvalidStatement, with the `usage`, for what is none: Python reads few digits."""
    if text is None:
        return None
    if not text.isdecimal() or len(text) > len(str(MAXIMUM_LIMIT)) or int(text) > MAXIMUM_LIMIT:
        raise InvalidStatement(f"the limit of {function} cannot be {text[:40]!r}", hint=usage)
    return int(text)
