"""CREATE STREAM TABLE: all checks come before the first effect, and a failure half-way is undone."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from streamtable.catalog.definition import IDENTITY
from streamtable.catalog.entries import CATALOG, Entry, find, load
from streamtable.catalog.halves import Kind, Part
from streamtable.catalog.immediate import announce
from streamtable.catalog.intents import intended
from streamtable.catalog.paths import vacant
from streamtable.definitions.checks import analysed_for, schema_of
from streamtable.definitions.refusals import told
from streamtable.definitions.replace import replace_with
from streamtable.definitions.table import make, publish
from streamtable.delta.tables import Located, find_table
from streamtable.errors import InvalidStatement, NotSupported, StreamTableExists
from streamtable.language.names import Name
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.query.analyse import release
from streamtable.refresh.backfill import given_by
from streamtable.refresh.choose import Action
from streamtable.refresh.run import Outcome, populate, refresh

__all__ = ["CREATED", "CREATED_EMPTY", "Dropped", "create", "refused_anew"]

CREATED, CREATED_EMPTY = "the table was created", "created WITH NO DATA"
"""The reasons in the answer of CREATE."""


@dataclass(frozen=True)
class Dropped:
    """A dropped table, and the paths of other files that are left in its folder."""

    name: str
    left: tuple[str, ...]


def create(spark: SparkSession, statement: CreateStreamTable, *, again: bool = True) -> Outcome:
    """Create the stream table and fill it. Raises InvalidStatement and its kinds, NotIncremental; then nothing is left behind.

    `again`: begin once more if another session took the name meanwhile.
    """
    started = time.perf_counter()
    located, existing = find(spark, statement.name)
    full = ".".join(located.name)
    if not (statement.or_replace and existing):
        if existing and statement.if_not_exists:
            empty = "" if existing.state.frontier else f", but was never populated: REFRESH STREAM TABLE {Name(located.name)}"
            return Outcome(full, Action.NO_DATA, f"the stream table exists already{empty}", 0, 0, 0, existing.state.version)
        _allow_name(located, existing)
    definition, analysed = analysed_for(spark, statement, located, existing)
    try:
        if existing:
            done = replace_with(spark, existing, definition, analysed, started)
            same = statement.or_refresh and done.action is Action.NO_DATA
            return refresh(spark, load(spark, statement.name)) if same else done
        path = vacant(spark, located.name, statement.location)
        part = Part(located.name, path, (IDENTITY, definition.id), alone=definition.has_own_folder)
        with intended(spark, Kind.CREATE, part):
            schema = schema_of(statement, analysed)
            given = given_by(spark, statement.backfill, schema) if statement.backfill else None
            entry = make(spark, definition, schema, analysed.bound, path)
            if statement.with_data:
                done = populate(spark, entry, analysed, given)
            else:
                done = Outcome(full, Action.NO_DATA, "", 0, 0, 0, entry.state.version)
            announce(spark, definition.statement.schedule)  # before others see the table, and after all that may fail
            publish(spark, entry, analysed.bound)
    except Exception:
        if existing or not again or find_table(spark, statement.name.parts).kind == "none":
            raise
        return create(spark, statement, again=False)  # answer as if the other session had been first
    finally:
        release(analysed)
    reason = CREATED if statement.with_data else CREATED_EMPTY
    return replace(done, reason=reason, duration_ms=round(1000 * (time.perf_counter() - started)))


def _allow_name(located: Located, existing: Entry | None) -> None:
    """Raise an error if a new stream table cannot have the name."""
    full = ".".join(located.name)
    if located.kind != "none":
        what = "a stream table" if existing else "a table or view"
        again = f"CREATE OR REPLACE STREAM TABLE {Name(located.name)}" if existing else "DROP it first, if nobody needs it"
        raise StreamTableExists(f"{full} is {what} already", hint=f"choose another name, or {again}")
    if located.name[0] != CATALOG:
        raise NotSupported(f"stream tables in the catalog {located.name[0]} are not built yet", hint=f"use {CATALOG}")


def refused_anew(spark: SparkSession, located: Located, statement: CreateStreamTable) -> str | None:
    """Return why no stream table can be made with the name, at the place; None where one can."""
    try:
        _allow_name(located, None)
        vacant(spark, located.name, statement.location)
    except (InvalidStatement, NotSupported) as error:
        return told(error)
    return None
