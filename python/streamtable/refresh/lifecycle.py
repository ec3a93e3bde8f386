"""CREATE and DROP STREAM TABLE: everything is checked before anything is made, and a name is free or a whole table's."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from streamtable.catalog.accepted import knows
from streamtable.catalog.definition import FORMATTED
from streamtable.catalog.dropping import drop_parts
from streamtable.catalog.entries import CATALOG, find, load, named_entries
from streamtable.catalog.halves import Kind, Part, marked
from streamtable.catalog.intents import intended
from streamtable.catalog.paths import vacant
from streamtable.delta.tables import locate
from streamtable.errors import DefinitionNotAccepted, DefinitionUnreadable, DependentsExist, NotSupported, StreamTableExists
from streamtable.refresh.checks import prepared_for, schema_of
from streamtable.refresh.choose import Action
from streamtable.refresh.ddl import make, publish
from streamtable.refresh.prepare import release
from streamtable.refresh.records import Initiator
from streamtable.refresh.replace import replace_with
from streamtable.refresh.run import Outcome, refresh
from streamtable.sql.statements import CreateStreamTable, DropStreamTable, Name

__all__ = ["CREATED", "CREATED_EMPTY", "Dropped", "create", "drop"]

CREATED, CREATED_EMPTY = "the table was created", "created WITH NO DATA"
"""What CREATE answers."""


@dataclass(frozen=True)
class Dropped:
    """A table that is gone, and the paths of what is left in its folder, because it was not the table's."""

    name: str
    left: tuple[str, ...]


def create(spark: SparkSession, statement: CreateStreamTable) -> Outcome:
    """Create the stream table and fill it. Raises InvalidStatement and its kinds, NotIncremental; nothing is left behind then."""
    started = time.perf_counter()
    located, existing = find(spark, statement.name)
    full = ".".join(located.name)
    if located.kind != "none" and not (statement.or_replace and existing):
        if existing and statement.if_not_exists:
            empty = "" if existing.state.frontier else f", but was never populated: REFRESH STREAM TABLE {Name(located.name)}"
            return Outcome(full, Action.NO_DATA, f"the stream table exists already{empty}", 0, 0, 0, existing.state.version)
        what = "a stream table" if existing else "a table or view"
        raise StreamTableExists(f"{full} is {what} already", hint="choose another name, or CREATE OR REPLACE a stream table")
    if located.name[0] != CATALOG:
        raise NotSupported(f"stream tables in the catalog {located.name[0]} are not built yet", hint=f"use {CATALOG}")
    definition, prepared = prepared_for(spark, statement, located, existing)
    try:
        if existing:
            return replace_with(spark, existing, definition, prepared, started)
        path = vacant(spark, located.name, statement.location)
        with intended(spark, Kind.CREATE, Part(located.name, path, ("streamtable.id", definition.id))):
            entry = make(spark, definition, schema_of(statement, prepared), prepared.reading, path)
            if statement.with_data:
                done = refresh(spark, entry, initiator=Initiator.INITIAL)
            else:
                done = Outcome(full, Action.NO_DATA, "", 0, 0, 0, entry.state.version)
            publish(spark, entry, prepared.reading)
    except Exception:
        if existing or locate(spark, statement.name.parts).kind == "none":
            raise
        return create(spark, statement)  # another session took the name in the meantime: answer as where it had been first
    finally:
        release(prepared)
    reason = CREATED if statement.with_data else CREATED_EMPTY
    return replace(done, reason=reason, duration_ms=round(1000 * (time.perf_counter() - started)))


def drop(spark: SparkSession, statement: DropStreamTable) -> list[Dropped]:
    """Drop the stream table, its files and, with CASCADE, those that read it, which come first."""
    located = locate(spark, statement.name.parts)
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
