"""The checks of a definition, the same for CREATE, OR REPLACE, ALTER ... AS and EXPLAIN CREATE."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from streamtable.catalog.definition import Definition, spelled
from streamtable.catalog.entries import Entry
from streamtable.catalog.graph import refuse_cycle
from streamtable.delta.columns import RESERVED, needs_mapping, unstorable
from streamtable.delta.tables import Located
from streamtable.errors import (
    DependentsExist,
    InvalidQuery,
    InvalidStatement,
    StreamTableError,
    near_names,
)
from streamtable.jvm.handles import namespace_of
from streamtable.language.names import Condition, Name
from streamtable.language.parse import parse_schedule
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.expectations import Expectation, Violation
from streamtable.language.stream_table.schedule import (
    Cron,
    Every,
    Immediate,
    OnUpdate,
    Schedule,
    Unsaid,
    duration,
    immediate,
    on_update,
    session_zone,
)
from streamtable.language.stream_table.write import expectation_sql
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.query.checks import allow, refuse_hidden_names, refuse_session_names, temporary_view_refused
from streamtable.query.expectations import column_names, meaning, refused
from streamtable.query.frozen import FROZEN
from streamtable.query.rewrite import moving_literal
from streamtable.query.states import Plan, plan_of
from streamtable.refresh.backfill import given_by
from streamtable.refresh.dry_run import rejected
from streamtable.sessions.captured import captured_settings
from streamtable.sessions.internal import lend, lent
from streamtable.settings.session import BLOCK_SOURCE_DDL, DEFAULT_SCHEDULE, MINIMUM_SCHEDULE, read_setting
from streamtable.sql.literals import quote_string

__all__ = ["analysed_for", "check_properties", "check_schedule", "check_source_ddl", "mapping", "schema_of"]


def analysed_for(
    spark: SparkSession, statement: CreateStreamTable, located: Located, existing: Entry | None, like: Definition | None = None
) -> tuple[Definition, AnalysedQuery]:
    """Analyse the query and check the definition, without any effect.

    The query is read in the caller's schema and with the caller's settings, or with those of the definition `like`. The settings
    are the table's own as well where a condition stays as it was read.
    """
    _refuse_moving_literals(statement)
    if statement.or_replace and existing and existing.state.frontier and _thaws(existing, statement):
        reason = f"{existing.definition.name} has frozen rows, which a definition without FROZEN WHERE would lose"
        raise InvalidStatement(reason, hint="say FROZEN WHERE (...), or first ALTER STREAM TABLE ... DROP FROZEN")
    if isinstance(statement.schedule, Unsaid):
        statement = replace(statement, schedule=parse_schedule(read_setting(spark, DEFAULT_SCHEDULE)))
    id_ = existing.definition.id if existing else uuid.uuid4().hex
    namespace, settings = (like.namespace, like.settings) if like else (namespace_of(spark), _settings(spark, statement, existing))
    if like is None:  # nobody may be kept from changing something else of a table whose schedule is too short today
        check_schedule(spark, statement.schedule, settings)
        refuse_hidden_names(spark, statement.query)
    try:
        analysed = analyse(
            lend(spark, namespace, settings),
            statement.query,
            statement,
            _before(statement, existing),
            _is_trusted(statement, existing),
        )
    except InvalidQuery as error:
        refuse_session_names(spark, error)
        raise
    try:
        if mode := _needed(statement, analysed, existing):
            statement = _mapped(statement, mode)
        analysed = replace(analysed, rejected=rejected(analysed))
        _check(spark, statement, analysed, existing)
        if existing and not statement.or_replace:
            _refuse_other_meaning(spark, existing.definition, analysed, namespace, settings)
    except StreamTableError:
        release(analysed)
        raise
    canonical = replace(statement, name=Name(located.name), or_replace=False, or_refresh=False, if_not_exists=False)
    canonical = replace(canonical, with_data=True, backfill=None)
    return Definition(canonical, id_, namespace, settings, analysed.source_names), analysed


def _settings(spark: SparkSession, statement: CreateStreamTable, existing: Entry | None) -> Mapping[str, str]:
    """Return the caller's settings, or those by which the table's conditions were read where these stay.

    Frozen rows stay, so the condition that froze them must mean the same. ALTER ... AS names no condition: each stays.
    """
    if existing is None:
        return captured_settings(spark)
    freezes = existing.definition.statement.frozen is not None and statement.frozen is not None
    stays = not statement.or_replace and (freezes or statement.expectations)
    return existing.definition.settings if stays or (freezes and existing.state.frontier) else captured_settings(spark)


def _refuse_other_meaning(
    spark: SparkSession, before: Definition, analysed: AnalysedQuery, namespace: tuple[str, ...], settings: Mapping[str, str]
) -> None:
    """Refuse another query from another schema where conditions stay that mean something else there, as by a function's name."""
    if analysed.judged is None or namespace == before.namespace:
        return
    for each in analysed.judged.expectations:
        there = meaning(analysed.session, analysed.frame, each.condition)
        with lent(spark, before.namespace, settings) as session:
            here = meaning(session, analysed.frame, each.condition)
        if here is None or here != there:
            old, new = ".".join(before.namespace), ".".join(namespace)
            what = f"the condition of the expectation {each.name} of {before.name}, ({each.condition.text}),"
            raise InvalidStatement(
                f"{what} means something else in {new}",
                hint=f"USE {old} first, and name the tables of the query with their schemas; or say the condition anew as well, by "
                "CREATE OR REPLACE STREAM TABLE",
            )


def _thaws(existing: Entry, statement: CreateStreamTable) -> bool:
    return existing.definition.statement.frozen is not None and statement.frozen is None


def _before(statement: CreateStreamTable, existing: Entry | None) -> Plan | None:
    """Return the plan to whose states the new definition keeps, if its own is the same: that of a table with the same STATE."""
    return plan_of(existing) if existing and existing.definition.statement.state is statement.state else None


def _is_trusted(statement: CreateStreamTable, existing: Entry | None) -> bool:
    """Tell whether the rows are those of BACKFILL ... TRUSTED. A table that is there keeps its own."""
    if existing is None:
        return statement.backfill is not None and statement.backfill.trusted
    plan = plan_of(existing)
    return plan is not None and plan.trusted


def _refuse_moving_literals(statement: CreateStreamTable) -> None:
    hint = "write current_date() or current_timestamp(), which are kept up to date"
    if literal := moving_literal(statement.query.text):
        raise InvalidQuery(f"{literal} is another time each time that the query is read", hint=hint)
    conditions = [(each.condition, f"the expectation {each.name}") for each in statement.expectations]
    for each, of in [*conditions, *([(statement.frozen, FROZEN)] if statement.frozen else [])]:
        if literal := moving_literal(each.text):
            raise refused(each, of, f"has {literal}, which is another time each time that it is read", hint)


def check_schedule(spark: SparkSession, schedule: Schedule, settings: Mapping[str, str]) -> None:
    """Raise InvalidStatement for a duration that is too short, or a cron expression in an unknown time zone."""
    match schedule:
        case Every(_, text):
            duration(text, read_setting(spark, MINIMUM_SCHEDULE))
        case Immediate():
            immediate(read_setting(spark, MINIMUM_SCHEDULE))
        case OnUpdate(at_most):
            on_update(at_most, read_setting(spark, MINIMUM_SCHEDULE))
        case Cron(_, None):
            session_zone(settings["spark.sql.session.timeZone"])


_MAPPING = "delta.columnMapping.mode"

_CONSTRAINTS = "delta.constraints."

_OF_STORAGE = ("option.", "fs.", "dfs.")
"""What properties begin with that could be settings of Hadoop for the table's files."""

_IMPOSSIBLE = {"delta.appendonly": "true", "delta.enabledeletionvectors": "false"}


def check_properties(properties: Iterable[tuple[str, str]]) -> None:
    """Raise InvalidStatement for constraints, settings of storage, and properties of Delta under which no refresh removes rows."""
    for key, value in properties:
        if key.casefold().startswith(_OF_STORAGE):
            raise InvalidStatement(
                f"a stream table cannot have the property '{key}': it is a setting of storage",
                hint="set it where Spark is started, as spark.hadoop.fs...., for all tables; a table that has it already: "
                f"ALTER STREAM TABLE ... UNSET TBLPROPERTIES ({quote_string(key)})",
            )
        if key.casefold().startswith(_CONSTRAINTS):
            expected = Expectation(key[len(_CONSTRAINTS) :], Condition(value), Violation.FAIL_UPDATE)
            message = f"a stream table cannot have the constraint '{key}': its rows are those of the query"
            hint = f"write an expectation, in the list behind the name or as ALTER STREAM TABLE ... ADD {expectation_sql(expected)}"
            raise InvalidStatement(message, hint=hint)
        if _IMPOSSIBLE.get(key.casefold()) == value.strip().casefold():
            raise InvalidStatement(
                f"a stream table cannot have '{key}' = '{value}': a refresh marks rows as deleted, in deletion vectors",
                hint="leave the property out; if you need a table with it, copy this one: CREATE TABLE ... AS SELECT",
            )


def _check(spark: SparkSession, statement: CreateStreamTable, analysed: AnalysedQuery, existing: Entry | None) -> None:
    if temporary := analysed.bound.temporary_views:
        raise temporary_view_refused(temporary[0])
    check_properties(statement.properties)
    names = column_names(statement, analysed.frame.columns)
    _check_names(names, {**(existing.state.properties if existing else {}), **dict(statement.properties)})
    schema = schema_of(statement, analysed)
    _check_types(spark, schema)
    seen = {name.casefold() for name in names}
    for name in (*statement.partitioned_by, *statement.clustered_by):
        if name.casefold() not in seen:
            raise InvalidStatement(f"the table has no column {name} to partition or cluster by.{near_names(name, names)}")
    allow(analysed, statement.mode)
    if statement.backfill and not existing:
        given_by(spark, statement.backfill, schema)
    if existing:
        refuse_cycle(spark, existing, analysed.paths)


def _needed(statement: CreateStreamTable, analysed: AnalysedQuery, existing: Entry | None) -> str | None:
    """Return the column mapping that the names of the columns need. An existing table keeps its own: Delta cannot remove it."""
    if existing:
        return mapping(dict(existing.definition.statement.properties))
    return "name" if any(map(needs_mapping, column_names(statement, analysed.frame.columns))) else None


def _mapped(statement: CreateStreamTable, mode: str) -> CreateStreamTable:
    """Give the table column mapping, unless the statement says otherwise."""
    if mapping(dict(statement.properties)) is not None:
        return statement
    return replace(statement, properties=(*statement.properties, (_MAPPING, mode)))


def mapping(properties: Mapping[str, str]) -> str | None:
    """Return the mode of column mapping that is said, in whichever case the property is written; the last one counts."""
    said = {spelled(key): value for key, value in properties.items()}.get(spelled(_MAPPING))
    return None if said is None else said.strip().casefold()


def _check_names(names: Sequence[str], properties: Mapping[str, str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise InvalidStatement(f"the column name {name} occurs twice in the query", hint="give one an alias with AS")
        seen.add(name.casefold())
        if name.casefold() in RESERVED:
            raise InvalidStatement(f"the column name {name} belongs to Delta itself", hint="give it an alias with AS")
        if needs_mapping(name) and mapping(properties) in (None, "none"):
            hint = f"give it an alias: {name} AS some_name, or TBLPROPERTIES ('{_MAPPING}' = 'name')"
            raise InvalidStatement(f"{name} cannot be the name of a column in Delta without column mapping", hint=hint)


def _check_types(spark: SparkSession, schema: StructType) -> None:
    collations = spark.conf.get("spark.databricks.delta.schema.typeCheck.enabled", "true") == "false"
    if found := next(unstorable(schema, collations=collations), None):
        place, kind = found
        raise InvalidStatement(
            f"Delta cannot store the column {place}: its type is {kind}",
            hint=f"cast it to a type that Delta stores, as in CAST({place.split('.')[0].split('[')[0]} AS STRING), or leave it out",
        )


def schema_of(statement: CreateStreamTable, analysed: AnalysedQuery) -> StructType:
    """Return the table's schema, nullable at any depth as in CREATE TABLE AS: no later input may make a refresh fail.

    A column that the query hands on has the comment of its source, unless the statement gives it one.
    """
    specs = statement.columns or [None] * len(analysed.frame.columns)
    fields = []
    for name, field, spec in zip(column_names(statement, analysed.frame.columns), analysed.frame.schema.fields, specs, strict=True):
        given = spec.comment if spec else None
        comment = field.metadata.get("comment") if given is None else given
        fields.append(StructField(name, field.dataType, metadata={"comment": comment} if comment else {}))
    return StructType(fields).toNullable()


def check_source_ddl(spark: SparkSession, operation: str, name: str, readers_of: Callable[[], Sequence[str]]) -> None:
    """Raise DependentsExist if stream tables read the table, view or schema, and the session forbids to change its shape."""
    if read_setting(spark, BLOCK_SOURCE_DDL) and (readers := readers_of()):
        raise DependentsExist(
            f"{operation} on {name} is refused: {', '.join(readers)} read it, and {BLOCK_SOURCE_DDL.key} is on",
            hint=f"SET {BLOCK_SOURCE_DDL.key} = false to do it nevertheless, or drop what reads it first",
        )
