"""What a definition must be before anything is made of it: CREATE, OR REPLACE, ALTER ... AS and EXPLAIN CREATE ask alike."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import networkx as nx
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from streamtable import config
from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry, dependencies, readers_of
from streamtable.delta.columns import RESERVED, needs_mapping, unstorable
from streamtable.delta.tables import Located
from streamtable.errors import (
    DependencyCycle,
    DependentsExist,
    InvalidQuery,
    InvalidStatement,
    NotIncremental,
    StreamTableError,
    near_names,
)
from streamtable.handles import catalog_of, namespace_of
from streamtable.refresh.dry_run import rejected
from streamtable.refresh.prepare import Prepared, captured_settings, prepare, release
from streamtable.sessions import lend
from streamtable.sql.literals import unquote_name
from streamtable.sql.rewrite import moving_literal
from streamtable.sql.schedule import duration, session_zone
from streamtable.sql.statements import CreateStreamTable, Cron, Every, Name, RefreshMode, Schedule

__all__ = [
    "AUTO",
    "allow",
    "check_properties",
    "check_schedule",
    "check_source_ddl",
    "prepared_for",
    "refuse_session_names",
    "schema_of",
]


def prepared_for(
    spark: SparkSession, statement: CreateStreamTable, located: Located, existing: Entry | None
) -> tuple[Definition, Prepared]:
    """Read the query and check all that can be wrong with it, without making anything."""
    if literal := moving_literal(statement.query.text):
        hint = "write current_date() or current_timestamp(), which are kept up to date"
        raise InvalidQuery(f"{literal} is another time each time that the query is read", hint=hint)
    id_ = existing.definition.id if existing else uuid.uuid4().hex
    namespace = namespace_of(spark)
    settings = captured_settings(spark)
    check_schedule(spark, statement.schedule, settings)
    try:
        prepared = prepare(lend(spark, namespace, settings), statement.query)
    except InvalidQuery as error:
        refuse_session_names(spark, error)
        raise
    try:
        if existing is None and any(map(needs_mapping, _names(statement, prepared))):
            statement = _mapped(statement)
        prepared = replace(prepared, rejected=rejected(prepared))
        _check(spark, statement, prepared, existing)
    except StreamTableError:
        release(prepared)
        raise
    canonical = replace(statement, name=Name(located.name), or_replace=False, if_not_exists=False, with_data=True)
    return Definition(canonical, id_, namespace, settings, prepared.names), prepared


def refuse_session_names(spark: SparkSession, error: InvalidQuery) -> None:
    """Say that a name which Spark does not find is one of the caller's session: a refresh has a session of its own."""
    # Not spark.catalog.listTables(): it asks the metastore for every table of the database.
    for view in spark.sql("SHOW VIEWS").collect():
        if view["isTemporary"] and f"`{view['viewName']}` cannot be found" in error.reason:
            raise _temporary(view["viewName"]) from error
    for unknown, exists, what, hint in _OF_SESSION:
        if found := re.search(unknown, error.reason):
            *space, name = map(unquote_name, re.findall(r"`(?:[^`]|``)+`", found[1]))
            if tuple(space) in ((), ("session",), ("system", "session")) and exists(spark, name):
                raise InvalidStatement(f"the query {what} {name}, which ends with this session", hint=hint) from error


def _is_variable(spark: SparkSession, name: str) -> bool:
    try:
        spark.sql(f"SELECT {Name((name,))}")
    except AnalysisException:
        return False
    return True


_OF_SESSION: tuple[tuple[str, Callable[[SparkSession, str], bool], str, str], ...] = (
    (
        r"(?:Cannot resolve routine|Could not resolve) (`.+?`) (?:on search path|to a table-valued function)",
        lambda spark, name: catalog_of(spark).functionExists(str(Name((name,)))),
        "calls the temporary function",
        "create a permanent function with CREATE FUNCTION, or write what it computes into the query",
    ),
    (
        r"(?:function parameter with name|Cannot resolve variable) (`.+?`) (?:cannot be resolved|on search path)",
        _is_variable,
        "reads the session variable",
        "write its value into the query, or keep it in a table",
    ),
)
"""How Spark says that it does not find a name, whether the caller's session knows it, what it is then, and what to do."""


def _temporary(view: str) -> InvalidStatement:
    hint = "create a permanent view, or write its query in WITH"
    return InvalidStatement(f"the query reads the temporary view {view}, which ends with this session", hint=hint)


def check_schedule(spark: SparkSession, schedule: Schedule, settings: Mapping[str, str]) -> None:
    """Raise InvalidStatement for a duration that is too short, or a cron expression in a zone that nothing here can read."""
    match schedule:
        case Every(_, text):
            duration(text, config.read(spark, config.MINIMUM_SCHEDULE))
        case Cron(_, None):
            session_zone(settings["spark.sql.session.timeZone"])


AUTO = "use REFRESH MODE AUTO"
"""What to do about a query that the mode DIFFERENTIAL cannot maintain."""

MAPPING = "delta.columnMapping.mode"

_IMPOSSIBLE = {"delta.appendonly": "true", "delta.enabledeletionvectors": "false"}


def check_properties(properties: Iterable[tuple[str, str]]) -> None:
    """Raise InvalidStatement for a property of Delta under which no refresh could take rows out, and for constraints."""
    for key, value in properties:
        if key.casefold().startswith("delta.constraints."):
            message = f"a stream table cannot have the constraint '{key}': its rows are those of the query"
            raise InvalidStatement(message, hint="put the condition into the query: WHERE, or raise_error()")
        if _IMPOSSIBLE.get(key.casefold()) == value.strip().casefold():
            raise InvalidStatement(
                f"a stream table cannot have '{key}' = '{value}': a refresh marks rows as deleted, in deletion vectors",
                hint="leave the property out; whoever needs a table with it copies this one: CREATE TABLE ... AS SELECT",
            )


def _check(spark: SparkSession, statement: CreateStreamTable, prepared: Prepared, existing: Entry | None) -> None:
    if temporary := prepared.reading.temporary_views:
        raise _temporary(temporary[0])
    check_properties(statement.properties)
    names = _names(statement, prepared)
    _check_names(names, {**(existing.state.properties if existing else {}), **dict(statement.properties)})
    _check_types(spark, schema_of(statement, prepared))
    seen = {name.casefold() for name in names}
    for name in (*statement.partitioned_by, *statement.clustered_by):
        if name.casefold() not in seen:
            raise InvalidStatement(f"the table has no column {name} to partition or cluster by.{near_names(name, names)}")
    allow(prepared, statement.mode)
    if existing:
        graph = dependencies(spark)
        for path in prepared.paths:
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


def _names(statement: CreateStreamTable, prepared: Prepared) -> list[str]:
    columns = prepared.frame.columns
    if not statement.columns:
        return list(columns)
    if len(statement.columns) != len(columns):
        raise InvalidStatement(f"the column list names {len(statement.columns)} columns, the query gives {len(columns)}")
    return [each.name for each in statement.columns]


def schema_of(statement: CreateStreamTable, prepared: Prepared) -> StructType:
    """All may be NULL, at any depth, as in CREATE TABLE AS: a later change of the query's input must not make a refresh fail."""
    specs = statement.columns or [None] * len(prepared.frame.columns)
    fields = []
    for name, field, spec in zip(_names(statement, prepared), prepared.frame.schema.fields, specs, strict=True):
        fields.append(StructField(name, field.dataType, metadata={"comment": spec.comment} if spec and spec.comment else {}))
    return StructType(fields).toNullable()


def allow(prepared: Prepared, mode: RefreshMode) -> None:
    """Raise NotIncremental for a query that the mode DIFFERENTIAL cannot maintain."""
    if mode is RefreshMode.DIFFERENTIAL and (stands := prepared.obstacle):
        raise NotIncremental(f"{stands.operator} cannot be maintained: {stands.reason}", hint=AUTO)


def check_source_ddl(spark: SparkSession, operation: str, name: str, place: str) -> None:
    """Raise DependentsExist where the session forbids to change the shape of what stream tables read."""
    if config.read(spark, config.BLOCK_SOURCE_DDL) and (readers := readers_of(spark, place)):
        raise DependentsExist(
            f"{operation} on {name} is refused: {', '.join(readers)} read it, and {config.BLOCK_SOURCE_DDL.key} is on",
            hint=f"SET {config.BLOCK_SOURCE_DDL.key} = false to do it nevertheless, or drop what reads it first",
        )
