"""Whether what a stored query gives still fits the columns of its table."""

from __future__ import annotations

from collections.abc import Iterable

from streamtable.catalog.entries import Entry, table_columns
from streamtable.errors import SourceChanged
from streamtable.query.analyse import AnalysedQuery
from streamtable.query.stored import ways

__all__ = ["check_columns"]


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


def _listed(names: Iterable[str], types: Iterable[str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True))
