"""ALTER STREAM TABLE: all checks come before the first change, and each change is one commit."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from streamtable.catalog.definition import SUSPENDED, Definition, defaults_of, over, spelled
from streamtable.catalog.entries import Entry, find, load
from streamtable.catalog.immediate import announce
from streamtable.definitions.accept import accept_definition
from streamtable.definitions.checks import analysed_for, check_properties, check_schedule
from streamtable.definitions.rename import rename_with_readers
from streamtable.definitions.replace import replace_with
from streamtable.delta.ddl import sync_catalog
from streamtable.delta.tables import Located
from streamtable.engine import clock
from streamtable.errors import (
    InternalError,
    InvalidQuery,
    InvalidStatement,
    NotSupported,
    SourceChanged,
    StreamTableExists,
    near_names,
)
from streamtable.language.names import COMMENT, Name, Query
from streamtable.language.stream_table.ast import (
    AcceptDefinition,
    AlterStreamTable,
    ColumnSpec,
    CommentColumns,
    RefreshMode,
    Rename,
    Resume,
    SetComment,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    Suspend,
    UnsetProperties,
)
from streamtable.language.stream_table.expectations import AddExpectation, DropExpectation, Expectation
from streamtable.language.stream_table.history import SetFrozen
from streamtable.language.stream_table.state import SetState
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.query.checks import allow
from streamtable.query.fits import check_columns
from streamtable.query.stored import analyse_again
from streamtable.refresh.records import PATIENCE, annotate
from streamtable.sessions.internal import lend

__all__ = ["alter", "with_query"]


def alter(spark: SparkSession, statement: AlterStreamTable) -> Definition:
    """Change the definition and return the new one."""
    match statement.action:
        case Rename(to):
            return _rename(spark, statement.name, to)
        case AcceptDefinition():
            return accept_definition(spark, statement.name)
        case SetQuery(query):
            entry = load(spark, statement.name)
            return _replace(spark, entry, with_query(spark, entry, query))
        case AddExpectation() | DropExpectation():
            entry = load(spark, statement.name)
            return _keep_query(spark, entry, expectations=_expectations(entry.definition, statement.action))
        case SetFrozen(condition):
            return _keep_query(spark, load(spark, statement.name), frozen=condition)
        case SetState(state):
            return _keep_query(spark, load(spark, statement.name), state=state)
        case _:
            return PATIENCE(_describe, spark, statement)


def _describe(spark: SparkSession, statement: AlterStreamTable) -> Definition:
    """Change a part of the definition on which no row depends."""
    entry = load(spark, statement.name)
    definition = entry.definition
    match statement.action:
        case SetSchedule(schedule):
            check_schedule(spark, schedule, definition.settings)
            announce(spark, schedule)
            return _store(spark, entry, definition.with_statement(schedule=schedule))
        case SetMode(mode):
            _allow(spark, entry, mode)
            return _store(spark, entry, definition.with_statement(mode=mode))
        case Suspend():
            return _store(spark, entry, replace(definition, status=SUSPENDED))
        case Resume():
            return _store(spark, entry, definition.resumed_by(entry.state.version + 1, clock.now()))
        case SetProperties(properties):
            check_properties(properties)
            return _set(spark, entry, dict(properties))
        case UnsetProperties(keys, if_exists):
            return _unset(spark, entry, keys, if_exists)
        case SetComment(comment):
            return _set(spark, entry, {COMMENT: comment})
        case CommentColumns(comments):
            return _comment(spark, entry, comments)
        case other:
            raise InternalError(f"{type(other).__name__} is not such a change")


def _allow(spark: SparkSession, entry: Entry, mode: RefreshMode) -> None:
    if not mode.needs_rules:
        return  # any query will do, also one that cannot be read just now
    session = lend(spark, entry.definition.namespace, entry.definition.settings)
    analysed = analyse_again(session, entry)
    try:
        allow(analysed, mode)
    finally:
        release(analysed)


def _store(
    spark: SparkSession,
    entry: Entry,
    definition: Definition,
    more: Mapping[str, str | None] | None = None,
    schema_json: str | None = None,
) -> Definition:
    annotate(spark, entry, properties={**(more or {}), **definition.properties()}, schema_json=schema_json)
    if schema_json or (more and COMMENT in more):
        sync_catalog(spark, entry.name)
    return definition


def _set(spark: SparkSession, entry: Entry, given: Mapping[str, str]) -> Definition:
    """Set properties, the comment among them, of which an empty one is none."""
    statement, properties = entry.definition.statement, over({}, given)
    comment = properties.pop(COMMENT, statement.comment) or None
    merged = over(dict(statement.properties), properties)
    changed = entry.definition.with_statement(properties=tuple(merged.items()), comment=comment)
    return _store(spark, entry, changed, {**properties, COMMENT: comment} if COMMENT in given else properties)


def _unset(spark: SparkSession, entry: Entry, keys: Sequence[str], if_exists: bool) -> Definition:
    """Take back what statements set; properties of the engine's own are not theirs to take."""
    statement = entry.definition.statement
    known = {**dict(statement.properties), **({} if statement.comment is None else {COMMENT: statement.comment})}
    named, gone = set(map(spelled, known)), set(map(spelled, keys))
    unknown = next((key for key in keys if spelled(key) not in named), None)
    if unknown is not None and not if_exists:
        message = f"the property '{unknown}' was not set on {entry.definition.name} by a statement.{near_names(unknown, known)}"
        raise InvalidStatement(message, hint="UNSET TBLPROPERTIES IF EXISTS leaves out what is not set")
    stays = {key: value for key, value in known.items() if spelled(key) not in gone}
    comment = stays.pop(COMMENT, None)
    defaults = defaults_of(key for key in known if spelled(key) in gone)
    return _store(spark, entry, entry.definition.with_statement(properties=tuple(stays.items()), comment=comment), defaults)


def _comment(spark: SparkSession, entry: Entry, comments: Sequence[tuple[str, str]]) -> Definition:
    """Comment on columns, in the table's schema and in the definition."""
    schema = json.loads(entry.state.schema_json)
    specs = {field["name"].casefold(): ColumnSpec(field["name"]) for field in schema["fields"]}
    specs |= {spec.name.casefold(): spec for spec in entry.definition.statement.columns}
    for column, comment in comments:
        if column.casefold() not in specs:
            near = near_names(column, (spec.name for spec in specs.values()))
            raise InvalidStatement(f"{entry.definition.name} has no column {column}.{near}")
        specs[column.casefold()] = replace(specs[column.casefold()], comment=comment)
    for field in schema["fields"]:
        if (said := specs[field["name"].casefold()].comment) is not None:
            field["metadata"]["comment"] = said
    definition = entry.definition.with_statement(columns=tuple(specs.values()))
    return _store(spark, entry, definition, schema_json=json.dumps(schema))


def _replace(spark: SparkSession, entry: Entry, read: tuple[Definition, AnalysedQuery]) -> Definition:
    started = time.perf_counter()
    definition, analysed = read
    try:
        replace_with(spark, entry, definition, analysed, started)
    finally:
        release(analysed)
    return definition


def _keep_query(spark: SparkSession, entry: Entry, **changes: object) -> Definition:
    """Change what else the table is made of; the query stays as it was read, in its schema and with its settings."""
    before = entry.definition
    after = before.with_statement(**changes)
    if after == before:
        return before
    statement = replace(after.statement, query=entry.query)
    definition, analysed = analysed_for(spark, statement, _place(entry), entry, like=before)
    if entry.state.frontier is None:  # the first refresh counts, and stores
        release(analysed)
        return _store(spark, entry, after)
    try:
        check_columns(entry, analysed)
    except SourceChanged:
        release(analysed)
        raise
    return _replace(spark, entry, (_as_before(definition, before), analysed))


def _expectations(before: Definition, action: AddExpectation | DropExpectation) -> tuple[Expectation, ...]:
    known = before.statement.expectations
    name = action.expectation.name if isinstance(action, AddExpectation) else action.name
    stays = tuple(each for each in known if each.name.casefold() != name.casefold())
    if isinstance(action, AddExpectation):
        if stays != known:
            message, hint = f"{before.name} has an expectation {name} already", f"DROP CONSTRAINT {Name((name,))} first"
            raise InvalidStatement(message, hint=hint)
        return (*known, action.expectation)
    if stays == known and not action.if_exists:
        near = near_names(name, (each.name for each in known))
        raise InvalidStatement(f"{before.name} has no expectation {name}.{near}", hint="DROP CONSTRAINT IF EXISTS drops none then")
    return stays


def with_query(spark: SparkSession, entry: Entry, query: Query) -> tuple[Definition, AnalysedQuery]:
    """Return the table's definition with the new query, read as by CREATE: in the caller's schema, with the caller's settings.

    A column list with other names than those of the query before names the columns of the new one by their order. Raises
    InvalidStatement where nothing tells, because the query before cannot be read any more.
    """
    before, listed = entry.definition, entry.definition.statement.columns
    named = [spec.name.casefold() for spec in listed]
    own = _own_names(spark, entry) if listed else None
    renames = own is not None and own != named
    statement = replace(before.statement, query=query, columns=listed if renames else ())
    definition, analysed = analysed_for(spark, statement, _place(entry), entry)
    if listed and own is None and [name.casefold() for name in analysed.frame.columns] != named:
        release(analysed)
        raise _unsure(before)
    if listed and not renames:
        comments = {spec.name.casefold(): spec.comment for spec in listed}
        specs = tuple(ColumnSpec(name, comments.get(name.casefold())) for name in analysed.frame.columns)
        definition = definition.with_statement(columns=specs if any(spec.comment for spec in specs) else ())
    return _as_before(definition, before), analysed


def _unsure(before: Definition) -> InvalidStatement:
    listed = ", ".join(str(Name((spec.name,))) for spec in before.statement.columns)
    return InvalidStatement(
        f"the query of {before.name} cannot be read any more, so nothing tells whether the column list ({listed}) "
        "gives its columns other names, or comments alone",
        hint=f"write the definition anew, with a list or without: CREATE OR REPLACE STREAM TABLE {before.statement.name} AS ...",
    )


def _place(entry: Entry) -> Located:
    return Located(entry.definition.statement.name.parts, "delta", entry.path)


def _as_before(definition: Definition, before: Definition) -> Definition:
    return replace(definition, status=before.status, error=before.error, resumed=before.resumed)


def _own_names(spark: SparkSession, entry: Entry) -> list[str] | None:
    """Return the names that the query itself gives its columns, in lower case; None where it cannot be read any more."""
    try:
        analysed = analyse(lend(spark, entry.definition.namespace, entry.definition.settings), entry.query)
    except InvalidQuery:
        return None
    release(analysed)
    return [name.casefold() for name in analysed.frame.columns]


def _rename(spark: SparkSession, name: Name, to: Name) -> Definition:
    before = find(spark, name)[0]
    old = before.name
    located, there = find(spark, Name((*old[:-1], *to.parts)) if len(to.parts) == 1 else to)
    if before.kind == "none" and there and there.definition.name.casefold() == ".".join(old).casefold():
        return rename_with_readers(spark, there, Name(located.name), begun=True)
    entry = load(spark, name)
    if entry.definition.name.casefold() != ".".join(old).casefold():
        rename_with_readers(spark, entry, Name(old), begun=True)  # an earlier one was killed on the way to this name
        entry = load(spark, name)
    if located.name[:-1] != old[:-1]:
        hint = "CREATE STREAM TABLE there, then DROP STREAM TABLE here"
        raise NotSupported(f"a stream table cannot move to another schema: {'.'.join(located.name[:-1])}", hint=hint)
    if located.kind != "none":
        hint = "RENAME TO another name, or drop what has this one"
        raise StreamTableExists(f"{'.'.join(located.name)} exists already", hint=hint)
    return rename_with_readers(spark, entry, Name(located.name))
