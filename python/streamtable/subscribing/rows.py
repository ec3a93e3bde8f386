"""Rows for readers: few rows are kept for all readers, many are computed part by part as they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from streamtable.engine import limits

__all__ = ["JAVA", "LINES", "PYTHON", "ChangeRows", "RowFormat"]

R = TypeVar("R")


class RowFormat(ABC, Generic[R]):
    """Where rows are read: `R` is an iterator over them."""

    @abstractmethod
    def at_most(self, frame: DataFrame, count: int) -> Any:
        """Compute the first `count` rows."""

    @abstractmethod
    def few(self, rows: Any) -> R:
        """Iterate over computed rows."""

    @abstractmethod
    def all(self, frame: DataFrame) -> R:
        """Iterate over the rows of a frame, a partition at a time."""


class JavaRowFormat(RowFormat[Any]):
    """Rows stay in the JVM: a java.util.Iterator."""

    def at_most(self, frame: DataFrame, count: int) -> Any:
        return frame.limit(count)._jdf.collectAsList()

    def few(self, rows: Any) -> Any:
        return rows.iterator()

    def all(self, frame: DataFrame) -> Any:
        return frame._jdf.toLocalIterator()


class PythonRowFormat(RowFormat[Iterator[Row]]):
    """Rows come into this process."""

    def at_most(self, frame: DataFrame, count: int) -> Any:
        return frame.limit(count).collect()

    def few(self, rows: Any) -> Iterator[Row]:
        return iter(rows)

    def all(self, frame: DataFrame) -> Iterator[Row]:
        return frame.toLocalIterator()


class LineFormat(JavaRowFormat):
    """Each row is one line of text, as COPY writes it: values between tabs, NULL as \\N."""

    def at_most(self, frame: DataFrame, count: int) -> Any:
        return super().at_most(_lines(frame), count)

    def all(self, frame: DataFrame) -> Any:
        return super().all(_lines(frame))


JAVA, PYTHON, LINES = JavaRowFormat(), PythonRowFormat(), LineFormat()

_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def _lines(frame: DataFrame) -> DataFrame:
    numbered = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    values = []
    for name in numbered.columns:
        value = F.col(name).cast("string")
        for character, escaped in _ESCAPES:
            value = F.replace(value, F.lit(character), F.lit(escaped))
        values.append(F.coalesce(value, F.lit("\\N")))
    return numbered.select(F.concat_ws("\t", *values).alias("line"))


class ChangeRows(Generic[R]):
    """The rows of a frame, for several readers. With `shared` they are kept, and few rows are computed at once."""

    def __init__(self, frame: DataFrame, form: RowFormat[R], *, shared: bool, expected: int = 0) -> None:
        self._frame, self._form = frame, form
        self._few = form.at_most(frame, limits.KEPT_CHANGE_ROWS + 1) if shared and expected <= limits.KEPT_CHANGE_ROWS else None
        self._kept = shared and (self._few is None or _length(self._few) > limits.KEPT_CHANGE_ROWS)
        if self._kept:
            self._few = None
            frame.persist()

    def read(self) -> R:
        """Begin to read."""
        return self._form.all(self._frame) if self._few is None else self._form.few(self._few)

    def forget(self) -> None:
        """Free kept rows; readers go on."""
        if self._kept:
            self._frame.unpersist()


def _length(rows: Any) -> int:
    return len(rows) if isinstance(rows, list) else int(rows.size())
