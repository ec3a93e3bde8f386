"""ALTER STREAM TABLE: all checks come before the first change, and each change is one commit."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from streamtable.catalog.definition import DELTA_PROPERTIES, SUSPENDED, Definition
from streamtable.catalog.entries import Entry, find, load
from streamtable.definitions.accept import accept_definition
from streamtable.definitions.checks import analysed_for, check_properties, check_schedule
from streamtable.definitions.rename import rename_with_readers
from streamtable.definitions.replace import replace_with
from streamtable.delta.tables import Located, sync_catalog
from streamtable.engine import clock
from streamtable.errors import InternalError, InvalidQuery, InvalidStatement, NotSupported, StreamTableExists, near_names
from streamtable.language.names import Name, Query
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
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.query.checks import allow
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
            return _set_query(spark, load(spark, statement.name), query)
        case _:
            return PATIENCE(_describe, spark, statement)


def _describe(spark: SparkSession, statement: AlterStreamTable) -> Definition:
    """Change a part of the definition on which no row depends."""
    entry = load(spark, statement.name)
    definition = entry.definition
    match statement.action:
        case SetSchedule(schedule):
            check_schedule(spark, schedule, definition.settings)
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
            given = dict(properties)
            comment = given.pop("comment", definition.statement.comment)  # as for Spark, it is the table's comment
            merged = {**dict(definition.statement.properties), **given}
            changed = definition.with_statement(properties=tuple(merged.items()), comment=comment)
            return _store(spark, entry, changed, dict(properties))
        case UnsetProperties(keys, if_exists):
            return _unset(spark, entry, keys, if_exists)
        case SetComment(comment):
            return _store(spark, entry, definition.with_statement(comment=comment), {"comment": comment})
        case CommentColumns(comments):
            return _comment(spark, entry, comments)
        case other:
            raise InternalError(f"{type(other).__name__} is not such a change")


def _allow(spark: SparkSession, entry: Entry, mode: RefreshMode) -> None:
    if not mode.needs_rules:
        return  # any query will do, also one that cannot be read just now
    session = lend(spark, entry.definition.namespace, entry.definition.settings)
    analysed = analyse(session, entry.query)
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
    if schema_json or (more and "comment" in more):
        sync_catalog(spark, entry.name)
    return definition


def _unset(spark: SparkSession, entry: Entry, keys: Sequence[str], if_exists: bool) -> Definition:
    """Take back what statements set; properties of the engine's own are not theirs to take."""
    known = dict(entry.definition.statement.properties)
    unknown = next((key for key in keys if key not in known), None)
    if unknown is not None and not if_exists:
        message = f"the property '{unknown}' was not set on {entry.definition.name} by a statement.{near_names(unknown, known)}"
        raise InvalidStatement(message, hint="UNSET TBLPROPERTIES IF EXISTS leaves out what is not set")
    stays = tuple((key, value) for key, value in known.items() if key not in keys)
    defaults = {key: DELTA_PROPERTIES.get(key) for key in keys if key in known}
    return _store(spark, entry, entry.definition.with_statement(properties=stays), defaults)


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


def _set_query(spark: SparkSession, entry: Entry, query: Query) -> Definition:
    started = time.perf_counter()
    definition, analysed = with_query(spark, entry, query)
    try:
        replace_with(spark, entry, definition, analysed, started)
    finally:
        release(analysed)
    return definition


def with_query(spark: SparkSession, entry: Entry, query: Query) -> tuple[Definition, AnalysedQuery]:
    """Return the table's definition with the new query, read as by CREATE: in the caller's schema, with the caller's settings."""
    before, listed = entry.definition, entry.definition.statement.columns
    by_name = bool(listed) and _renames_nothing(spark, entry)
    statement = replace(before.statement, query=query, columns=() if by_name else listed)
    definition, analysed = analysed_for(spark, statement, Located(before.statement.name.parts, "delta", entry.path), entry)
    if by_name:
        comments = {spec.name.casefold(): spec.comment for spec in listed}
        specs = tuple(ColumnSpec(name, comments.get(name.casefold())) for name in analysed.frame.columns)
        definition = definition.with_statement(columns=specs if any(spec.comment for spec in specs) else ())
    return replace(definition, status=before.status, error=before.error, resumed=before.resumed), analysed


def _renames_nothing(spark: SparkSession, entry: Entry) -> bool:
    """Tell whether the column list has the query's own names, so that it only holds comments: another query may have others."""
    try:
        analysed = analyse(lend(spark, entry.definition.namespace, entry.definition.settings), entry.query)
    except InvalidQuery:
        return False
    release(analysed)
    own = [name.casefold() for name in analysed.frame.columns]
    return own == [spec.name.casefold() for spec in entry.definition.statement.columns]


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
        raise StreamTableExists(f"{'.'.join(located.name)} exists already")
    return rename_with_readers(spark, entry, Name(located.name))
