"""DROP STREAM TABLE, with CASCADE also of its readers."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from streamtable.catalog.accepted import knows
from streamtable.catalog.definition import FORMATTED
from streamtable.catalog.dropping import drop_parts
from streamtable.catalog.entries import load, named_entries
from streamtable.catalog.halves import marked
from streamtable.definitions.create import Dropped
from streamtable.delta.tables import find_table
from streamtable.errors import DefinitionNotAccepted, DefinitionUnreadable, DependentsExist, NotSupported
from streamtable.language.stream_table.ast import DropStreamTable

__all__ = ["drop"]


def drop(spark: SparkSession, statement: DropStreamTable) -> list[Dropped]:
    """Drop the stream table, its files and, with CASCADE, those that read it, which come first."""
    located = find_table(spark, statement.name.parts)
    if statement.if_exists and located.kind == "none":
        return []
    full, definition = ".".join(located.name), None
    try:
        definition = load(spark, statement.name).definition
    except (DefinitionNotAccepted, DefinitionUnreadable, NotSupported):
        if not knows(located, FORMATTED):
            raise
    # Where a RENAME was killed half-way, the definition and some readers know the old name, and those the old path.
    before = definition.name if definition else full
    places = {located.path, before} if before.casefold() != full.casefold() else {located.path}
    readers = [
        name for name, each in named_entries(spark) if places & {*each.definition.sources, *each.definition.sources.values()}
    ]
    if readers and not statement.cascade:
        names = ", ".join(".".join(name.parts) for name in readers)
        raise DependentsExist(f"{full} is read by {names}", hint="DROP STREAM TABLE ... CASCADE drops them too")
    dropped = [each for reader in readers for each in drop(spark, DropStreamTable(reader, True, cascade=True))]
    part = marked(spark, located.name, located.path)
    alone = definition is not None and definition.statement.location is None
    return [*dropped, Dropped(full, drop_parts(spark, replace(part, alone=alone)))]
