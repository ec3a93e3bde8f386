"""CREATE and DROP STREAM TABLE: everything is checked before anything is made, and what fails half-way is taken back."""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.sql import SparkSession

from streamtable.catalog.entries import CATALOG, find, load, named_entries
from streamtable.delta.tables import locate
from streamtable.errors import DependentsExist, NotSupported, StreamTableExists
from streamtable.refresh.checks import prepared_for, schema_of
from streamtable.refresh.choose import Action
from streamtable.refresh.ddl import make, take_back, unmake
from streamtable.refresh.history import history
from streamtable.refresh.prepare import release
from streamtable.refresh.records import PATIENCE, Initiator
from streamtable.refresh.replace import replace_with
from streamtable.refresh.run import Outcome, refresh
from streamtable.sql.statements import CreateStreamTable, DropStreamTable, Name

__all__ = ["create", "drop"]


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
        make(spark, definition, schema_of(statement, prepared), prepared.reading)
    except Exception:
        if existing or find(spark, statement.name)[0].kind == "none":
            raise
        return create(spark, statement)  # another session took the name in the meantime: answer as where it had been first
    finally:
        release(prepared)
    try:
        if not statement.with_data:
            version = load(spark, definition.statement.name).state.version
            return Outcome(full, Action.NO_DATA, "created WITH NO DATA", 0, 0, _since(started), version)
        done = PATIENCE(lambda: _filled(spark, definition.statement.name))
        return replace(done, reason="the table was created", duration_ms=_since(started))
    except BaseException:
        take_back(spark, definition.statement.name, definition.id)
        raise


def _filled(spark: SparkSession, name: Name) -> Outcome:
    """Fill the new table, or say how it was filled: a scheduler sees it as soon as it is there."""
    entry = load(spark, name)
    done = refresh(spark, entry, initiator=Initiator.INITIAL)
    if done.action is not Action.NO_DATA:
        return done
    line = next(each for each in history(spark, [entry]) if each.record.action is Action.REINITIALIZE)
    rows = (line.record.rows_inserted, line.record.rows_deleted)
    return Outcome(done.name, line.record.action, line.record.reason, *rows, done.duration_ms, line.version)


def _since(started: float) -> int:
    return round(1000 * (time.perf_counter() - started))


def drop(spark: SparkSession, statement: DropStreamTable) -> list[str]:
    """Drop the stream table, its files and, with CASCADE, those that read it; return the names dropped, readers first."""
    located = locate(spark, statement.name.parts)
    if statement.if_exists and located.kind == "none":
        return []
    entry = load(spark, statement.name)
    full, before = ".".join(located.name), entry.definition.name
    # Where a RENAME was killed half-way, the definition and some readers know the old name, and those the old path.
    places = {entry.path, before} if before.casefold() != full.casefold() else {entry.path}
    readers = [
        name for name, each in named_entries(spark) if places & {*each.definition.sources, *each.definition.sources.values()}
    ]
    if readers and not statement.cascade:
        names = ", ".join(".".join(name.parts) for name in readers)
        raise DependentsExist(f"{full} is read by {names}", hint="DROP STREAM TABLE ... CASCADE drops them too")
    dropped = [name for reader in readers for name in drop(spark, DropStreamTable(reader, True, cascade=True))]
    unmake(spark, statement.name, entry.definition.id)
    return [*dropped, full]
