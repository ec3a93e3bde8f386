"""The stored query of a stream table, read again: it was valid at CREATE, so what is wrong with it now is wrong with a source."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry
from streamtable.errors import InvalidQuery, SourceChanged, SourceUnavailable
from streamtable.jvm.storage import not_mounted
from streamtable.query.analyse import AnalysedQuery, analyse
from streamtable.query.states import plan_of

__all__ = ["analyse_again", "gone", "ways"]

_GONE = ("TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "UNRESOLVED_ROUTINE")
_NAMED = re.compile(r"(?:table or view|routine|Delta table) (`[^`]+`(?:\.`[^`]+`)*|[^\s'`]+)")


def analyse_again(session: SparkSession, entry: Entry, anew: bool = False) -> AnalysedQuery:
    """Let Spark analyse the query that the table was made by. Raises SourceUnavailable and SourceChanged.

    `anew`: the contents are computed again, and STATE AUTO decides again which states are stored.
    """
    before = None if anew else plan_of(entry)
    try:
        return analyse(session, entry.query, entry.definition.statement, before, before is not None and before.trusted)
    except InvalidQuery as error:
        if any(each in error.reason for each in _GONE):
            named = _NAMED.search(error.reason)
            raise gone(entry.definition, named[1].replace("`", "") if named else "a source", error.reason) from error
        reason = f"the query of {entry.definition.name} cannot be read any more: {error.reason}"
        raise SourceChanged(reason, hint=error.hint or ways(entry.definition, "the source as it was")) from error


def gone(definition: Definition, source: str, detail: str = "") -> SourceUnavailable:
    """Return the error of a stream table whose source is gone, with the ways on. Storage that is away counts more than `detail`."""
    away = next(filter(None, map(not_mounted, definition.sources)), None)
    why = away.reason if away else detail
    reason = f"{definition.name} reads {source}, which is gone{f': {why}' if why else ''}"
    return SourceUnavailable(reason, hint=away.hint if away else ways(definition, source))


def ways(definition: Definition, source: str) -> str:
    """Return what serves where the stored query cannot be read, or gives what the table cannot hold."""
    name = definition.statement.name
    return (
        f"restore {source}; or give the stream table another query: ALTER STREAM TABLE {name} AS SELECT ...; "
        f"or drop it: DROP STREAM TABLE {name}. Until then it keeps its last contents"
    )
