"""The checks of a definition, the same for CREATE, OR REPLACE, ALTER ... AS and EXPLAIN CREATE."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import networkx as nx
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry, dependencies, readers_of
from streamtable.delta.columns import RESERVED, needs_mapping, unstorable
from streamtable.delta.tables import Located
from streamtable.errors import (
    DependencyCycle,
    DependentsExist,
    InvalidQuery,
    InvalidStatement,
    StreamTableError,
    near_names,
)
from streamtable.jvm.handles import namespace_of
from streamtable.language.names import Name
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.schedule import Cron, Every, Schedule, duration, session_zone
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.query.captured import captured_settings
from streamtable.query.checks import allow, refuse_session_names, temporary_view_refused
from streamtable.query.rewrite import moving_literal
from streamtable.refresh.dry_run import rejected
from streamtable.sessions.internal import lend
from streamtable.settings.session import BLOCK_SOURCE_DDL, MINIMUM_SCHEDULE, read_setting

__all__ = ["analysed_for", "check_properties", "check_schedule", "check_source_ddl", "schema_of"]


def analysed_for(
    spark: SparkSession, statement: CreateStreamTable, located: Located, existing: Entry | None
) -> tuple[Definition, AnalysedQuery]:
    """Analyse the query and check the definition, without any effect."""
    if literal := moving_literal(statement.query.text):
        hint = "write current_date() or current_timestamp(), which are kept up to date"
        raise InvalidQuery(f"{literal} is another time each time that the query is read", hint=hint)
    id_ = existing.definition.id if existing else uuid.uuid4().hex
    namespace = namespace_of(spark)
    settings = captured_settings(spark)
    check_schedule(spark, statement.schedule, settings)
    try:
        analysed = analyse(lend(spark, namespace, settings), statement.query)
    except InvalidQuery as error:
        refuse_session_names(spark, error)
        raise
    try:
        if existing is None and any(map(needs_mapping, _names(statement, analysed))):
            statement = _mapped(statement)
        analysed = replace(analysed, rejected=rejected(analysed))
        _check(spark, statement, analysed, existing)
    except StreamTableError:
        release(analysed)
        raise
    canonical = replace(statement, name=Name(located.name), or_replace=False, or_refresh=False, if_not_exists=False, with_data=True)
    return Definition(canonical, id_, namespace, settings, analysed.names), analysed


def check_schedule(spark: SparkSession, schedule: Schedule, settings: Mapping[str, str]) -> None:
    """Raise InvalidStatement for a duration that is too short, or a cron expression in an unknown time zone."""
    match schedule:
        case Every(_, text):
            duration(text, read_setting(spark, MINIMUM_SCHEDULE))
        case Cron(_, None):
            session_zone(settings["spark.sql.session.timeZone"])


MAPPING = "delta.columnMapping.mode"

_IMPOSSIBLE = {"delta.appendonly": "true", "delta.enabledeletionvectors": "false"}


def check_properties(properties: Iterable[tuple[str, str]]) -> None:
    """Raise InvalidStatement for properties of Delta under which a refresh cannot remove rows, and for constraints."""
    for key, value in properties:
        if key.casefold().startswith("delta.constraints."):
            message = f"a stream table cannot have the constraint '{key}': its rows are those of the query"
            raise InvalidStatement(message, hint="put the condition into the query: WHERE, or raise_error()")
        if _IMPOSSIBLE.get(key.casefold()) == value.strip().casefold():
            raise InvalidStatement(
                f"a stream table cannot have '{key}' = '{value}': a refresh marks rows as deleted, in deletion vectors",
                hint="leave the property out; if you need a table with it, copy this one: CREATE TABLE ... AS SELECT",
            )


def _check(spark: SparkSession, statement: CreateStreamTable, analysed: AnalysedQuery, existing: Entry | None) -> None:
    if temporary := analysed.bound.temporary_views:
        raise temporary_view_refused(temporary[0])
    check_properties(statement.properties)
    names = _names(statement, analysed)
    _check_names(names, {**(existing.state.properties if existing else {}), **dict(statement.properties)})
    _check_types(spark, schema_of(statement, analysed))
    seen = {name.casefold() for name in names}
    for name in (*statement.partitioned_by, *statement.clustered_by):
        if name.casefold() not in seen:
            raise InvalidStatement(f"the table has no column {name} to partition or cluster by.{near_names(name, names)}")
    allow(analysed, statement.mode)
    if existing:
        graph = dependencies(spark)
        for path in analysed.paths:
            if path == existing.path or (path in graph and existing.path in graph and nx.has_path(graph, existing.path, path)):
                raise DependencyCycle(f"{existing.definition.name} would read itself through the table at {path}")


def _mapped(statement: CreateStreamTable) -> CreateStreamTable:
    """Give the table column mapping, for the names of its columns, unless the statement says otherwise."""
    if any(key.casefold() == MAPPING.casefold() for key, _ in statement.properties):
        return statement
    return replace(statement, properties=(*statement.properties, (MAPPING, "name")))


def _check_names(names: Sequence[str], properties: Mapping[str, str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise InvalidStatement(f"the column name {name} occurs twice in the query", hint="give one an alias with AS")
        seen.add(name.casefold())
        if name.casefold() in RESERVED:
            raise InvalidStatement(f"the column name {name} belongs to Delta itself", hint="give it an alias with AS")
        if needs_mapping(name) and properties.get(MAPPING, "none") == "none":
            hint = f"give it an alias: {name} AS some_name, or TBLPROPERTIES ('{MAPPING}' = 'name')"
            raise InvalidStatement(f"{name} cannot be the name of a column in Delta without column mapping", hint=hint)


def _check_types(spark: SparkSession, schema: StructType) -> None:
    collations = spark.conf.get("spark.databricks.delta.schema.typeCheck.enabled", "true") == "false"
    if found := next(unstorable(schema, collations=collations), None):
        place, kind = found
        raise InvalidStatement(
            f"Delta cannot store the column {place}: its type is {kind}",
            hint=f"cast it to a type that Delta stores, as in CAST({place.split('.')[0].split('[')[0]} AS STRING), or leave it out",
        )


def _names(statement: CreateStreamTable, analysed: AnalysedQuery) -> list[str]:
    columns = analysed.frame.columns
    if not statement.columns:
        return list(columns)
    if len(statement.columns) != len(columns):
        raise InvalidStatement(f"the column list names {len(statement.columns)} columns, the query gives {len(columns)}")
    return [each.name for each in statement.columns]


def schema_of(statement: CreateStreamTable, analysed: AnalysedQuery) -> StructType:
    """Return the table's schema, nullable at any depth as in CREATE TABLE AS: no later input may make a refresh fail.

    A column that the query hands on has the comment of its source, unless the statement gives it one.
    """
    specs = statement.columns or [None] * len(analysed.frame.columns)
    fields = []
    for name, field, spec in zip(_names(statement, analysed), analysed.frame.schema.fields, specs, strict=True):
        given = spec.comment if spec else None
        comment = field.metadata.get("comment") if given is None else given
        fields.append(StructField(name, field.dataType, metadata={"comment": comment} if comment else {}))
    return StructType(fields).toNullable()


def check_source_ddl(spark: SparkSession, operation: str, name: str, place: str) -> None:
    """Raise DependentsExist if stream tables read the table and the session forbids to change its shape."""
    if read_setting(spark, BLOCK_SOURCE_DDL) and (readers := readers_of(spark, place)):
        raise DependentsExist(
            f"{operation} on {name} is refused: {', '.join(readers)} read it, and {BLOCK_SOURCE_DDL.key} is on",
            hint=f"SET {BLOCK_SOURCE_DDL.key} = false to do it nevertheless, or drop what reads it first",
        )
