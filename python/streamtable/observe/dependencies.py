"""The sources of stream tables."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from streamtable.catalog.entries import Entry, entries
from streamtable.observe.results import Rows

__all__ = ["dependency_rows"]


def dependency_rows(spark: SparkSession, wanted: Iterable[Entry] | None) -> Rows:
    """Return (name, source, kind) for each source of the `wanted` tables, or of all."""
    found = list(entries(spark))
    streams = {each.path for each in found}
    return [
        (each.definition.name, source, "stream table" if path in streams else "table")
        for each in (found if wanted is None else wanted)
        for path, source in each.definition.sources.items()
    ]
