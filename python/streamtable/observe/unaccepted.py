"""Definitions that no statement gave to the catalog, such as those of tables and objects of version 0.1.0."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import SparkSession

from streamtable.catalog.accepted import is_copy, of_table
from streamtable.catalog.definition import FORMATTED, Definition
from streamtable.catalog.entries import table_names
from streamtable.catalog.kinds import PUBLICATION, QUEUE, SUBSCRIPTION
from streamtable.delta.tables import Located, TableState, find_table, state
from streamtable.delta.unreadable import left_out
from streamtable.language.names import Name

__all__ = ["unaccepted"]


def unaccepted(spark: SparkSession) -> Iterator[str]:
    """Yield the statement that has the catalog accept the definition of a table or an object, for each that it does not know.

    Copies are left out, and definitions that were changed in their folder: a person has to look at those.
    """
    for parts in table_names(spark):
        noun = None
        with left_out(".".join(parts)):
            located = find_table(spark, parts)
            noun = _noun(located, state(spark, located.path)) if located.kind == "delta" else None
        if noun:
            yield f"ALTER {noun.upper()} {Name(parts)} ACCEPT DEFINITION"


def _noun(located: Located, found: TableState) -> str | None:
    """Return the kind of a table whose definition the catalog does not know."""
    if is_copy(located, found.properties) or of_table(located, found.table_id).accepted:
        return None
    if definition := Definition.of(found.properties) if FORMATTED in found.properties else None:
        return "stream table" if definition.name.casefold() == ".".join(located.name).casefold() else None
    return next((kind.noun for kind in (QUEUE, PUBLICATION, SUBSCRIPTION) if kind.key in found.properties), None)
