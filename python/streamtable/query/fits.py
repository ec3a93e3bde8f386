"""Whether a stored query still fits: its result the columns of its table, and its plan the tables that it reads."""

from __future__ import annotations

import json
from collections.abc import Iterable

from streamtable.catalog.entries import Entry, table_columns
from streamtable.errors import ConcurrentRefresh, SourceChanged
from streamtable.jvm.gateway import SHIM, java_class
from streamtable.query.analyse import AnalysedQuery
from streamtable.query.stored import ways

__all__ = ["check_columns", "refuse_moved"]


def check_columns(entry: Entry, analysed: AnalysedQuery) -> None:
    """Raise SourceChanged where the query gives other columns than the table has."""
    # Types are compared as texts, which have no comments: comments of nested fields may differ.
    stored = {field.name: field.dataType.simpleString() for field in entry.state.schema}
    now = [field.dataType.simpleString() for field in analysed.frame.schema]
    names, columns = table_columns(entry), analysed.frame.columns
    # A table of an earlier release has no record of its sources' columns at CREATE.
    moved = names != columns and sorted(names) == sorted(columns) and not entry.definition.statement.columns
    if moved or [stored.get(name) for name in names] != now:
        gives, has = _listed(columns, now), _listed(names, (stored.get(name, "?") for name in names))
        raise SourceChanged(
            f"the query of {entry.definition.name} gives {gives}, and the table has {has}",
            hint=ways(entry.definition, "the source as it was"),
        )


def refuse_moved(entry: Entry, analysed: AnalysedQuery) -> None:
    """Raise ConcurrentRefresh where a source has got other columns than the query was analysed with, or was made anew.

    Snapshots and changes are read with the columns that this driver knew last. A frontier with the plan's fingerprint would say
    that they are those of the plan.
    """
    if moved := json.loads(java_class(analysed.session, f"{SHIM}.PlanReader").moved(analysed.frame._jdf)):
        raise ConcurrentRefresh(
            f"{', '.join(sorted(moved))} got other columns, or was made anew, while {entry.definition.name} was refreshed; "
            "nothing was written",
            hint="refresh again",
        )


def _listed(names: Iterable[str], types: Iterable[str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
