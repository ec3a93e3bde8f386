"""What stream tables read: tables with their columns, views and functions of the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

from streamtable.catalog.entries import Entry, entries
from streamtable.observe.results import Row, Rows, columns

__all__ = ["DEPENDENCIES", "dependency_rows"]

DEPENDENCIES = columns(name=StringType, source=StringType, kind=StringType, columns=StringType)


def dependency_rows(spark: SparkSession, wanted: Iterable[Entry] | None) -> Rows:
    """Return (name, source, kind, columns) for what the queries of the `wanted` tables, or of all, read.

    The columns of a table are those that the query mentions; None where an earlier release read it last.
    """
    found = list(entries(spark))
    streams = {each.path for each in found}
    return [row for each in (found if wanted is None else wanted) for row in _rows(each, streams)]


def _rows(entry: Entry, streams: set[str]) -> Iterator[Row]:
    name, sources = entry.definition.name, entry.definition.sources
    used = entry.used if len(entry.used) == len(sources) else [None] * len(sources)
    for (path, source), mentioned in zip(sources.items(), used, strict=True):
        yield (name, source, "stream table" if path in streams else "table", mentioned)
    yield from ((name, view, "view", None) for view in entry.views)
    yield from ((name, function, "function", None) for function in entry.functions)
