"""The names that one refresh gives to frames in its session. Closing the workspace drops the names and frees kept rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DecimalType, IntegralType
from sqlglot import exp

from streamtable.jvm.gateway import SHIM, frame_of, java_class, planned
from streamtable.sql.builder import call, cast, column, number, text

if TYPE_CHECKING:
    from typing_extensions import Self

from streamtable.engine import limits

__all__ = ["ColumnExtents", "Workspace"]

ColumnExtents: TypeAlias = Mapping[str, tuple[str, str]]
"""Least and greatest value of columns, as text that reads back as the same value."""


_OURS = {
    "spark.sql.parser.quotedRegexColumnNames": "false",  # our queries quote all names
    "spark.sql.timestampType": "TIMESTAMP_LTZ",  # the type that our queries call TIMESTAMP
    "spark.sql.crossJoin.enabled": "true",  # a row of a state is joined with a row of the change
}
"""What our own queries need of settings by which a query may be created. The query itself is analysed by then."""


class Workspace:
    """Registers frames as temporary views of the refresh's session."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._held = java_class(session, f"{SHIM}.Held")
        self._frames: dict[str, DataFrame] = {}
        self._kept: list[DataFrame] = []
        self._measured: dict[DataFrame, ColumnExtents] = {}
        self._counts: dict[DataFrame, int] = {}
        self._others: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._frames

    def query(self, query: exp.Expr) -> DataFrame:
        """Plan a query over the registered names."""
        return planned(self.session, text(query))

    def persist(self, frame: DataFrame) -> DataFrame:
        """Keep the rows of `frame` from their first use on. Nothing computes them twice, and plans end at them."""
        self._kept.append(frame)
        return frame_of(self.session, self._held.kept(frame._jdf))

    def materialise(self, frame: DataFrame, rows: int | None = None) -> DataFrame:
        """Compute `frame` now, so that Spark knows its size. `rows` is the expected number of rows, if it is known.

        Few rows become a relation of the driver, which no job has to read or to find empty. The driver holds at most
        `limits.DRIVER_ROWS` rows, and at most spark.driver.maxResultSize bytes, whatever was expected. A frame without rows
        becomes a relation that the optimizer knows to be empty, so joins with it read nothing.
        """
        if rows is None or rows <= limits.DRIVER_ROWS:
            local = (self._held.some if rows is None else self._held.expected)(frame._jdf, limits.DRIVER_ROWS)
            if local is not None:
                return frame_of(self.session, local)
        kept = self.persist(frame)
        count, extents = _measured(kept)
        if not count:
            kept = frame_of(self.session, self._held.empty(frame._jdf))
        self._counts[kept], self._measured[kept] = count, extents
        return kept

    def has_rows(self, frame: DataFrame) -> bool:
        """Tell whether a frame has a row; this may take a job."""
        return not frame.isEmpty()

    def count(self, held: DataFrame) -> int:
        """Return an upper bound of the rows of a frame from `materialise`: their count, or `limits.DRIVER_ROWS`."""
        return self._counts.get(held, limits.DRIVER_ROWS)

    def extents(self, name: str) -> ColumnExtents:
        """Return the least and greatest value, as text, of each column of the frame `name`, if `materialise` computed it.

        Columns without a value, or of types whose text does not read back exactly, are left out. Other frames have no columns here.
        """
        frame = self._frames[name]
        if frame not in self._measured:
            found = json.loads(self._held.extents(frame._jdf))
            self._measured[frame] = {each: (least, most) for each, (least, most) in found.items()}
        return self._measured[frame]

    def name(self, name: str, frame: DataFrame) -> str:
        """Register `frame` under `name`."""
        self._held.named(frame._jdf, name)
        self._frames[name] = frame
        return name

    def __enter__(self) -> Self:
        settings = self.session._jsparkSession.conf()
        self._others = {key: found for key, ours in _OURS.items() if (found := settings.get(key)) != ours}
        for key in self._others:
            self.session.conf.set(key, _OURS[key])
        return self

    def __exit__(self, *_: object) -> None:
        for key, value in self._others.items():
            self.session.conf.set(key, value)
        self._held.forget(self.session._jsparkSession, json.dumps(list(self._frames)))
        for frame in self._kept:
            frame.unpersist()


def _measured(kept: DataFrame) -> tuple[int, ColumnExtents]:
    """Compute a kept frame; return how many rows it has, and the extents of its columns."""
    names = [f.name for f in kept.schema if isinstance(f.dataType, (IntegralType, DateType, DecimalType))]
    wanted = [cast(call(function, column(name)), "STRING") for name in names for function in ("min", "max")]
    count, *found = kept.agg(*(F.expr(text(each)) for each in (call("count", number(1)), *wanted))).collect()[0]
    pairs = zip(names, found[::2], found[1::2], strict=True)
    return count, {name: (least, most) for name, least, most in pairs if least is not None}
