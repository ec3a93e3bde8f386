"""A stream table becomes another one, by CREATE OR REPLACE or ALTER ... AS: in one commit, or not at all.

The table stays, with its history and its readers. Where the plan of the query is the same only the definition changes.
"""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.catalog.definition import ACTIVE, DELTA_PROPERTIES, SUSPENDED, Definition
from streamtable.catalog.entries import Entry, entries
from streamtable.delta.tables import tell_catalog
from streamtable.errors import DependentsExist, InvalidQuery, NotSupported
from streamtable.refresh import clock
from streamtable.refresh.checks import schema_of
from streamtable.refresh.choose import REPLACED, Action, Choice
from streamtable.refresh.execute import Run, fully
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.load import load_of
from streamtable.refresh.prepare import Prepared, prepare, release
from streamtable.refresh.records import Initiator, annotate
from streamtable.refresh.run import Outcome, outcome, targets
from streamtable.sessions import lend
from streamtable.sql.statements import CreateStreamTable

__all__ = ["effect", "replace_with"]

SAME_PLAN = "the plan of the query is the same: only the definition changes"
REBUILT = "the table is rebuilt in one commit; its history stays"


def effect(spark: SparkSession, existing: Entry, definition: Definition, prepared: Prepared) -> str:
    """Say what replacing the definition of a table by another one does to its contents; raise what speaks against it."""
    _, schema = _allowed(spark, existing, definition, prepared)
    return _effect(existing, definition, prepared, schema)


def _effect(existing: Entry, definition: Definition, prepared: Prepared, schema: StructType) -> str:
    frontier = Frontier.of(existing.state.frontier)
    # Of an operator without a rule the reading knows the name alone, which does not say that it does the same.
    same_plan = frontier is not None and frontier.fingerprint == prepared.fingerprint and prepared.obstacle is None
    same_settings = dict(definition.settings) == dict(existing.definition.settings)
    return SAME_PLAN if same_plan and same_settings and _columns(schema) == _columns(existing.state.schema) else REBUILT


def replace_with(spark: SparkSession, existing: Entry, definition: Definition, prepared: Prepared, started: float) -> Outcome:
    """Give the table another definition. Raises NotSupported for another layout, DependentsExist for a column that readers lose."""
    definition, schema = _allowed(spark, existing, definition, prepared)
    before = existing.definition.statement
    if existing.definition.status == SUSPENDED and definition.status == ACTIVE:
        definition = definition.resumed_by(existing.state.version + 1, clock.now())
    # What the old definition set and the new one does not goes back to its default.
    properties: dict[str, str | None] = {key: DELTA_PROPERTIES.get(key) for key, _ in before.properties}
    properties |= {"comment": definition.statement.comment, **dict(definition.statement.properties)}
    properties |= definition.properties(prepared.reading)
    if _effect(existing, definition, prepared, schema) == SAME_PLAN:
        annotate(spark, existing, properties=properties)
        tell_catalog(spark, before.name.parts)
        elapsed = round(1000 * (time.perf_counter() - started))
        return Outcome(definition.name, Action.NO_DATA, SAME_PLAN, 0, 0, elapsed, existing.state.version + 1)
    kept = {key: value for key, value in {**existing.state.properties, **properties}.items() if value is not None}
    state = replace(existing.state, schema_json=schema.json(), properties=kept)
    entry = replace(existing, definition=definition, state=state)
    frontier, vector = Frontier.of(existing.state.frontier), Vector({}, clock.now())
    run = Run(entry, prepared, frontier, targets(prepared, frontier, vector), vector.at, started, Initiator.MANUAL)
    run.load = load_of(run.session, run.target, {}, prepared.names)
    choice = Choice(Action.REINITIALIZE, REPLACED)
    done = fully(run, choice, schema.json(), properties)
    tell_catalog(spark, before.name.parts)
    return outcome(entry, choice, done, started)


def _allowed(spark: SparkSession, existing: Entry, definition: Definition, prepared: Prepared) -> tuple[Definition, StructType]:
    """Return the definition, at the place where the table is, and its schema, once nothing speaks against them."""
    before = existing.definition.statement
    if definition.statement.location is None:
        definition = definition.with_statement(location=before.location)
    if _layout(definition.statement) != _layout(before):
        raise NotSupported(
            "CREATE OR REPLACE cannot change where the table is, nor how it is partitioned or clustered",
            hint="DROP STREAM TABLE first, then CREATE it",
        )
    schema = schema_of(definition.statement, prepared)
    _keep_readers(spark, existing, schema)
    return definition, schema


def _keep_readers(spark: SparkSession, existing: Entry, schema: StructType) -> None:
    """Refuse to take a column, or its type, away from those that use it."""
    stays = {(field.name.casefold(), field.dataType) for field in schema}
    lost = {field.name for field in existing.state.schema if (field.name.casefold(), field.dataType) not in stays}
    readers = {entry.definition.name: _used_by(spark, entry, existing.path) & lost for entry in _readers(spark, existing) if lost}
    if losing := {name: columns for name, columns in readers.items() if columns}:
        columns = ", ".join(sorted(set[str]().union(*losing.values())))
        raise DependentsExist(
            f"{existing.definition.name} is read by {', '.join(losing)}, and would lose or retype {columns}",
            hint="keep the columns, or change those tables first",
        )


def _readers(spark: SparkSession, existing: Entry) -> list[Entry]:
    return [each for each in entries(spark) if existing.path in each.definition.sources]


def _used_by(spark: SparkSession, reader: Entry, path: str) -> frozenset[str]:
    """Return the columns that a reader would miss; one that cannot be read now misses others already."""
    try:
        prepared = prepare(lend(spark, reader.definition.namespace, reader.definition.settings), reader.query)
    except InvalidQuery:
        return frozenset()
    release(prepared)
    return prepared.columns_of(path)


def _columns(schema: StructType) -> list[tuple[object, ...]]:
    return [(field.name, field.dataType, field.metadata.get("comment")) for field in schema]


def _layout(statement: CreateStreamTable) -> tuple[object, ...]:
    """Return what is fixed once the table's files are written; names of columns may differ in case."""
    partitioned, clustered = ([name.casefold() for name in names] for names in (statement.partitioned_by, statement.clustered_by))
    return statement.location, partitioned, clustered
