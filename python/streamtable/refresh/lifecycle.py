"""CREATE, ALTER and DROP STREAM TABLE: everything is checked before anything is made, and what fails half-way is taken back."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import networkx as nx
from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from streamtable import config
from streamtable.catalog.definition import ACTIVE, DELTA_PROPERTIES, SUSPENDED, Definition
from streamtable.catalog.entries import Entry, dependencies, entries, find, find_at, load, readers_of
from streamtable.delta.tables import Located, drop_files, locate
from streamtable.errors import (
    DependencyCycle,
    DependentsExist,
    InvalidQuery,
    InvalidStatement,
    NotIncremental,
    NotSupported,
    StreamTableError,
    StreamTableExists,
    StreamTableNotFound,
    near_names,
)
from streamtable.refresh.choose import Action
from streamtable.refresh.execute import what_stands_in_the_way
from streamtable.refresh.prepare import Prepared, captured_settings, prepare, refresh_session, release
from streamtable.refresh.records import annotate
from streamtable.refresh.run import Outcome, refresh, replace_with
from streamtable.sql.schedule import duration, session_zone
from streamtable.sql.statements import (
    AlterStreamTable,
    CreateStreamTable,
    Cron,
    DropStreamTable,
    Every,
    Name,
    RefreshMode,
    Rename,
    Resume,
    Schedule,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    Suspend,
)

__all__ = ["alter", "create", "drop", "prepared_for"]


@contextmanager
def _as_engine(spark: SparkSession) -> Iterator[None]:
    """Let Spark's own DDL touch a stream table: the check rule refuses it to everybody else."""
    context = spark.sparkContext
    before = context.getLocalProperty("streamtable.engine")
    context.setLocalProperty("streamtable.engine", "true")
    try:
        yield
    finally:
        context.setLocalProperty("streamtable.engine", before)  # type: ignore[arg-type]


def create(spark: SparkSession, statement: CreateStreamTable) -> Outcome:
    """Create the stream table and fill it. Raises InvalidStatement and its kinds, NotIncremental; nothing is left behind then."""
    started = time.perf_counter()
    located, existing = find(spark, statement.name)
    full = ".".join(located.name)
    if located.kind != "none" and not (statement.or_replace and existing):
        if existing and statement.if_not_exists:
            return Outcome(full, Action.NO_DATA, "the stream table exists already", 0, 0, 0, existing.state.version)
        what = "a stream table" if existing else "a table or view"
        raise StreamTableExists(f"{full} is {what} already", hint="choose another name, or CREATE OR REPLACE a stream table")
    if located.name[0] != "spark_catalog":
        raise NotSupported(f"stream tables in the catalog {located.name[0]} are not built yet", hint="use spark_catalog")
    definition, prepared = prepared_for(spark, statement, located, existing)
    try:
        schema = _schema(statement, prepared)
        views = prepared.reading.views
        if existing:
            return replace_with(existing, definition, prepared, schema, views, started)
        _make(spark, definition, schema, views)
    finally:
        release(prepared)
    try:
        entry = load(spark, definition.statement.name)
        if not statement.with_data:
            return Outcome(full, Action.NO_DATA, "created WITH NO DATA", 0, 0, _since(started), entry.state.version)
        done = refresh(spark, entry)
        return replace(done, reason="the table was created", duration_ms=_since(started))
    except BaseException:
        _unmake(spark, definition.statement.name)
        raise


def _since(started: float) -> int:
    return round(1000 * (time.perf_counter() - started))


def prepared_for(
    spark: SparkSession, statement: CreateStreamTable, located: Located, existing: Entry | None
) -> tuple[Definition, Prepared]:
    """Read the query and check all that can be wrong with it, without making anything."""
    id_ = existing.definition.id if existing else uuid.uuid4().hex
    namespace = (spark.catalog.currentCatalog(), spark.catalog.currentDatabase())
    settings = captured_settings(spark)
    _check_schedule(spark, statement.schedule, settings)
    try:
        prepared = prepare(refresh_session(spark, id_, namespace, settings), id_, statement.query)
    except InvalidQuery as error:
        _refuse_temporary_views(spark, error)
        raise
    try:
        _check(spark, statement, prepared, existing)
    except StreamTableError:
        release(prepared)
        raise
    canonical = replace(statement, name=Name(located.name), or_replace=False, if_not_exists=False, with_data=True)
    sources = {path: str(source) for path, source in prepared.sources.items()}
    return Definition(canonical, id_, namespace, settings, sources), prepared


def _refuse_temporary_views(spark: SparkSession, error: InvalidQuery) -> None:
    """Say that a table which Spark does not find is a temporary view of the caller: a refresh has a session of its own."""
    for view in spark.catalog.listTables():
        if view.isTemporary and f"`{view.name}` cannot be found" in error.reason:
            raise InvalidStatement(
                f"the query reads the temporary view {view.name}, which ends with this session",
                hint="create a permanent view, or write its query in WITH",
            ) from error


def _check_schedule(spark: SparkSession, schedule: Schedule, settings: Mapping[str, str]) -> None:
    match schedule:
        case Every(_, text):
            duration(text, config.read(spark, config.MINIMUM_SCHEDULE))
        case Cron(_, None):
            session_zone(settings["spark.sql.session.timeZone"])


def _check(spark: SparkSession, statement: CreateStreamTable, prepared: Prepared, existing: Entry | None) -> None:
    if temporary := prepared.reading.temporary_views:
        raise InvalidStatement(
            f"the query reads the temporary view {temporary[0]}, which ends with this session",
            hint="create a permanent view, or write its query in WITH",
        )
    names = _names(statement, prepared)
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            raise InvalidStatement(f"the column name {name} occurs twice in the query", hint="give one an alias with AS")
        seen[name.casefold()] = name
        if re.search(r"[ ,;{}()\n\t=]", name):
            raise InvalidStatement(f"{name} cannot be the name of a column in Delta", hint=f"give it an alias: {name} AS some_name")
    for name in (*statement.partitioned_by, *statement.clustered_by):
        if name.casefold() not in seen:
            raise InvalidStatement(f"the table has no column {name} to partition or cluster by.{near_names(name, names)}")
    stands = what_stands_in_the_way(prepared)
    if statement.mode is RefreshMode.DIFFERENTIAL and stands:
        raise NotIncremental(f"{stands.operator} cannot be maintained: {stands.reason}", hint="use REFRESH MODE AUTO")
    if existing:
        graph = dependencies(spark)
        for path in prepared.paths:
            if path == existing.path or (path in graph and existing.path in graph and nx.has_path(graph, existing.path, path)):
                raise DependencyCycle(f"{existing.definition.name} would read itself through the table at {path}")


def _names(statement: CreateStreamTable, prepared: Prepared) -> list[str]:
    columns = prepared.frame.columns
    if not statement.columns:
        return list(columns)
    if len(statement.columns) != len(columns):
        raise InvalidStatement(f"the column list names {len(statement.columns)} columns, the query gives {len(columns)}")
    return [each.name for each in statement.columns]


def _schema(statement: CreateStreamTable, prepared: Prepared) -> StructType:
    """All columns may be NULL, as in CREATE TABLE AS: a later change of the query's input must not make a refresh fail."""
    specs = statement.columns or [None] * len(prepared.frame.columns)
    fields = []
    for name, field, spec in zip(_names(statement, prepared), prepared.frame.schema.fields, specs, strict=True):
        fields.append(StructField(name, field.dataType, True, {"comment": spec.comment} if spec and spec.comment else {}))
    return StructType(fields)


def _make(spark: SparkSession, definition: Definition, schema: StructType, views: tuple[str, ...]) -> None:
    statement = definition.statement
    # Delta's builder takes a name of the session catalog, in two parts.
    builder = DeltaTable.create(spark).tableName(str(Name(statement.name.parts[1:]))).addColumns(schema)
    if statement.partitioned_by:
        builder = builder.partitionedBy(*statement.partitioned_by)
    if statement.clustered_by:
        builder = builder.clusterBy(*statement.clustered_by)
    if statement.comment:
        builder = builder.comment(statement.comment)
    if statement.location:
        builder = builder.location(statement.location)
    for key, value in {**DELTA_PROPERTIES, **dict(statement.properties), **definition.properties(views)}.items():
        builder = builder if value is None else builder.property(key, value)
    try:
        with _as_engine(spark):
            builder.execute()
    except BaseException:
        _unmake(spark, statement.name)
        raise


def _unmake(spark: SparkSession, name: Name) -> None:
    entry = find(spark, name)[1]
    if entry is not None:
        with _as_engine(spark):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
        drop_files(spark, entry.path)


def drop(spark: SparkSession, statement: DropStreamTable) -> list[str]:
    """Drop the stream table, its files and, with CASCADE, those that read it; return the names dropped, readers first."""
    if statement.if_exists and locate(spark, statement.name.parts).kind == "none":
        return []
    entry = load(spark, statement.name)
    readers = [each for each in entries(spark) if entry.path in each.definition.sources]
    if readers and not statement.cascade:
        names = ", ".join(each.definition.name for each in readers)
        raise DependentsExist(f"{entry.definition.name} is read by {names}", hint="DROP STREAM TABLE ... CASCADE drops them too")
    dropped = [
        name for each in readers for name in drop(spark, DropStreamTable(each.definition.statement.name, True, cascade=True))
    ]
    _unmake(spark, entry.definition.statement.name)
    return [*dropped, entry.definition.name]


def alter(spark: SparkSession, statement: AlterStreamTable) -> Definition:
    """Change the definition and return the new one."""
    entry = load(spark, statement.name)
    definition = entry.definition
    match statement.action:
        case SetSchedule(schedule):
            _check_schedule(spark, schedule, definition.settings)
            return _store(spark, entry, definition.with_statement(schedule=schedule))
        case SetMode(mode):
            _allow(spark, definition, mode)
            return _store(spark, entry, definition.with_statement(mode=mode))
        case Suspend():
            return _store(spark, entry, replace(definition, status=SUSPENDED))
        case Resume():
            return _store(spark, entry, replace(definition, status=ACTIVE, error=None))
        case SetProperties(properties):
            merged = {**dict(definition.statement.properties), **dict(properties)}
            changed = definition.with_statement(properties=tuple(merged.items()))
            return _store(spark, entry, changed, dict(properties))
        case Rename(to):
            return _rename(spark, entry, to)
        case SetQuery():
            raise NotSupported("ALTER STREAM TABLE ... AS is not built yet", hint="use CREATE OR REPLACE STREAM TABLE")


def _allow(spark: SparkSession, definition: Definition, mode: RefreshMode) -> None:
    if mode is not RefreshMode.DIFFERENTIAL:
        return
    session = refresh_session(spark, definition.id, definition.namespace, definition.settings)
    prepared = prepare(session, definition.id, definition.statement.query)
    try:
        if stands := what_stands_in_the_way(prepared):
            raise NotIncremental(f"{stands.operator} cannot be maintained: {stands.reason}", hint="leave the mode at AUTO")
    finally:
        release(prepared)


def _store(spark: SparkSession, entry: Entry, definition: Definition, more: dict[str, str] | None = None) -> Definition:
    annotate(spark, entry, properties={**(more or {}), **definition.properties()})
    return definition


def _rename(spark: SparkSession, entry: Entry, to: Name) -> Definition:
    if readers := readers_of(spark, entry.path):
        raise DependentsExist(f"{entry.definition.name} is read by {', '.join(readers)}, whose queries name it")
    located, _ = find(spark, Name((*entry.definition.statement.name.parts[:-1], *to.parts)) if len(to.parts) == 1 else to)
    if located.name[:-1] != entry.definition.statement.name.parts[:-1]:
        hint = "CREATE STREAM TABLE there, then DROP STREAM TABLE here"
        raise NotSupported(f"a stream table cannot move to another schema: {'.'.join(located.name[:-1])}", hint=hint)
    if located.kind != "none":
        raise StreamTableExists(f"{'.'.join(located.name)} exists already")
    with _as_engine(spark):
        spark.sql(f"ALTER TABLE {entry.definition.statement.name} RENAME TO {Name(located.name[1:])}")
    moved = find(spark, Name(located.name))[0]
    renamed = find_at(spark, moved.path)
    if renamed is None:
        raise StreamTableNotFound(f"{'.'.join(located.name)} was not found after it was renamed")
    return _store(spark, renamed, entry.definition.with_statement(name=Name(located.name)))
