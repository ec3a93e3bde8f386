"""CREATE OR REPLACE and ALTER ... AS: a stream table gets another definition in one commit, or not at all.

The table stays, with its history and its readers. If the plan of the query is the same, only the definition changes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from streamtable.catalog.definition import ACTIVE, SUSPENDED, Definition, defaults_of, over
from streamtable.catalog.entries import Entry, entries
from streamtable.definitions.checks import mapping, schema_of
from streamtable.delta.ddl import sync_catalog
from streamtable.engine import clock
from streamtable.errors import DependentsExist, NotSupported, SourceChanged, SourceUnavailable
from streamtable.language.names import COMMENT
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.query.analyse import AnalysedQuery, release
from streamtable.query.followed import followers
from streamtable.query.stored import analyse_again
from streamtable.refresh.choose import REPLACED, Action, Choice
from streamtable.refresh.execute import refresh_full
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.lineage import reported
from streamtable.refresh.load import load_of
from streamtable.refresh.recording import states_to_keep
from streamtable.refresh.records import MANUAL, annotate
from streamtable.refresh.run import Outcome, begin, outcome
from streamtable.sessions.internal import lend

__all__ = ["effect", "replace_with"]

SAME = "the definition is the same"
SAME_PLAN = "the plan of the query is the same: only the definition changes"
AGAIN = "DROP STREAM TABLE first, then CREATE it"
REBUILT = "the table is rebuilt in one commit; its history stays"


def effect(spark: SparkSession, existing: Entry, definition: Definition, analysed: AnalysedQuery) -> str:
    """Return the effect of another definition on the table's contents, or why it is refused."""
    try:
        definition, schema = _allowed(spark, existing, definition, analysed)
    except (DependentsExist, NotSupported) as error:
        return f"it is refused: {error.reason}"
    does = _effect(existing, definition, analysed, schema)
    if not _same_definition(existing.definition, definition):
        return does
    return f"{SAME}; nothing changes" if does == SAME_PLAN else f"{SAME}; {does}"


def _same_definition(before: Definition, after: Definition) -> bool:
    return (before.statement, before.namespace, dict(before.settings)) == (after.statement, after.namespace, dict(after.settings))


def _effect(existing: Entry, definition: Definition, analysed: AnalysedQuery, schema: StructType) -> str:
    frontier = Frontier.of(existing.state.frontier)
    same_plan = (
        frontier is not None
        and frontier.fingerprint == analysed.fingerprint
        and frontier.reads(analysed.paths)  # a fingerprint knows a table by its id, which a copy of its files has as well
        and analysed.obstacle is None  # of an operator without a rule a fingerprint has the name alone
    )
    same_settings = dict(definition.settings) == dict(existing.definition.settings)
    same_table = _columns(schema) == _columns(existing.state.schema) and _same_layout(existing, definition)
    return SAME_PLAN if same_plan and same_settings and same_table else REBUILT


def replace_with(spark: SparkSession, existing: Entry, definition: Definition, analysed: AnalysedQuery, started: float) -> Outcome:
    """Give the table another definition. Raises NotSupported for another place, DependentsExist for what readers would lose."""
    definition, schema = _allowed(spark, existing, definition, analysed)
    before = existing.definition.statement
    if existing.definition.status == SUSPENDED and definition.status == ACTIVE:
        definition = definition.resumed_by(existing.state.version + 1, clock.now())
    properties = _asked(existing, definition) | {COMMENT: definition.statement.comment} | definition.properties(analysed.bound)
    if _effect(existing, definition, analysed, schema) == SAME_PLAN:
        commented = _commented(existing.state.schema_json, schema)
        annotate(spark, existing, properties=properties, frontier=_decided(existing, definition, analysed), schema_json=commented)
        sync_catalog(spark, before.name.parts)
        elapsed = round(1000 * (time.perf_counter() - started))
        return Outcome(definition.name, Action.NO_DATA, SAME_PLAN, 0, 0, elapsed, existing.state.version + 1)
    kept = {key: value for key, value in {**existing.state.properties, **properties}.items() if value is not None}
    shape: str | None = schema.json()
    partitioned = existing.state.partition_columns
    if (_same_query(existing, definition) or definition.statement.frozen) and _columns(schema) == _columns(existing.state.schema):
        shape = _commented(existing.state.schema_json, schema)  # without one, readers are told of the rows that differ alone
    if not _same_layout(existing, definition):
        shape, partitioned = _laid_out(schema, definition), tuple(_named(schema, definition.statement.partitioned_by))
    state = replace(existing.state, schema_json=schema.json(), properties=kept, partition_columns=partitioned)
    entry = replace(existing, definition=definition, state=state)
    run = begin(entry, analysed, Frontier.of(existing.state.frontier), Vector({}, clock.now()), started, MANUAL)
    run = replace(run, load=load_of(run.session, run.target, {}, analysed.names))
    choice = Choice(Action.REINITIALIZE, REPLACED)
    with reported(spark, entry) as report:
        report.analysed(analysed)
        done = refresh_full(run, choice, shape, properties)
        report.done(done.rows_added)
    sync_catalog(spark, before.name.parts)
    return outcome(entry, choice, done, started)


def _allowed(
    spark: SparkSession, existing: Entry, definition: Definition, analysed: AnalysedQuery
) -> tuple[Definition, StructType]:
    """Return the definition, at the table's path, and its schema. Raises the errors of the replacement."""
    before = existing.definition.statement
    if definition.statement.location is None:
        definition = definition.with_statement(location=before.location)
    if definition.statement.location != before.location:
        raise NotSupported("CREATE OR REPLACE cannot change where the table is", hint=AGAIN)
    if not _same_layout(existing, definition):
        _allow_layout(spark, existing, definition)
    schema = schema_of(definition.statement, analysed)
    if definition.statement.frozen and existing.state.frontier is not None:
        _allow_frozen(existing, definition, schema)
    _keep_readers(spark, existing, schema)
    _allow_columns(existing, definition, schema)
    return definition, schema


def _allow_frozen(existing: Entry, definition: Definition, schema: StructType) -> None:
    """Refuse what the rows that stay cannot take part in: other columns, and another layout, for which all are written anew."""
    same = _columns(schema) == _columns(existing.state.schema)
    if not same or not _same_layout(existing, definition):
        what = "laid out anew" if same else "given other columns"
        hint = f"keep {'the layout' if same else 'names, types and order of the columns'}, or {AGAIN} with BACKFILL FROM a copy"
        raise NotSupported(f"{existing.definition.name} keeps frozen rows, and cannot be {what}", hint=hint)


def _keep_readers(spark: SparkSession, existing: Entry, schema: StructType) -> None:
    """Refuse to remove or retype a column that readers use."""
    stays = {(name.casefold(), kind) for name, kind in _columns(schema)}
    lost = {name for name, kind in _columns(existing.state.schema) if (name.casefold(), kind) not in stays}
    readers = [each for each in entries(spark) if existing.path in each.definition.sources] if lost else []
    used = {entry.definition.name: _used_by(spark, entry, existing.path) & lost for entry in readers}
    if losing := {name: columns for name, columns in used.items() if columns}:
        columns = ", ".join(sorted(set[str]().union(*losing.values())))
        raise DependentsExist(
            f"{existing.definition.name} is read by {', '.join(losing)}, and would lose or retype {columns}",
            hint="keep the columns, or change those tables first",
        )


def _used_by(spark: SparkSession, reader: Entry, path: str) -> frozenset[str]:
    """Return the columns of the table that a reader uses. A reader that cannot be analysed lacks others already."""
    try:
        session = lend(spark, reader.definition.namespace, reader.definition.settings)
        analysed = analyse_again(session, reader)
    except (SourceChanged, SourceUnavailable):
        return frozenset()
    release(analysed)
    return analysed.columns_of(path)


def _allow_layout(spark: SparkSession, existing: Entry, definition: Definition) -> None:
    """Refuse what Delta cannot lay out anew, and a table whose changes somebody reads: they are in files of the old layout."""
    if existing.state.clustering and definition.statement.partitioned_by:
        raise NotSupported("Delta cannot partition a table that is clustered, or was", hint=AGAIN)
    if who := ", ".join(followers(spark, existing)):
        message = f"{existing.definition.name} is read by {who}, and cannot be laid out anew"
        raise DependentsExist(message, hint=f"drop {who} first, or keep the layout")


def _asked(existing: Entry, definition: Definition) -> dict[str, str | None]:
    """Return the properties that the statement sets; those that only the old one set go back to their defaults."""
    return over(defaults_of(dict(existing.definition.statement.properties)), dict(definition.statement.properties))


def _allow_columns(existing: Entry, definition: Definition, schema: StructType) -> None:
    """Refuse to drop a field of a table with column mapping and a change feed: Delta takes no rows in the commit that does so."""
    properties = {key: value for key, value in over(existing.state.properties, _asked(existing, definition)).items() if value}
    lost = set(_paths(existing.state.schema)) - set(_paths(schema))
    if lost and mapping(properties) not in (None, "none") and properties.get("delta.enableChangeDataFeed") == "true":
        named = ", ".join(".".join(path) for path in sorted(lost))
        what = (
            f"{existing.definition.name} has column mapping and a change data feed: Delta cannot drop {named} while it writes rows"
        )
        raise NotSupported(
            what, hint=f"keep these columns, or set delta.enableChangeDataFeed to false in TBLPROPERTIES, or {AGAIN}"
        )


def _paths(kind: DataType, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all fields in a type, in lower case."""
    match kind:
        case StructType():
            for field in kind:
                path = (*at, field.name.casefold())
                yield path
                yield from _paths(field.dataType, path)
        case ArrayType():
            yield from _paths(kind.elementType, (*at, "element"))
        case MapType():
            yield from _paths(kind.keyType, (*at, "key"))
            yield from _paths(kind.valueType, (*at, "value"))


def _decided(existing: Entry, definition: Definition, analysed: AnalysedQuery) -> Frontier | None:
    """Return the frontier with what STATE AUTO decided; None where it says so already."""
    frontier, states = Frontier.of(existing.state.frontier), states_to_keep(definition, analysed)
    return replace(frontier, states=states) if frontier and frontier.states != states else None


def _same_query(existing: Entry, definition: Definition) -> bool:
    """Tell whether expectations, frozen rows or STATE change, and nothing else that decides rows or states."""
    before, after = existing.definition.statement, definition.statement
    same = before.query == after.query and dict(existing.definition.settings) == dict(definition.settings)
    return same and (before.expectations, before.frozen, before.state) != (after.expectations, after.frozen, after.state)


def _same_layout(existing: Entry, definition: Definition) -> bool:
    return _layout(definition.statement) == _layout(existing.definition.statement)


def _laid_out(schema: StructType, definition: Definition) -> str:
    """Return the schema with the layout that the definition asks for, as a commit takes both."""
    partitioned, clustered = (list(_named(schema, names)) for names in _layouts(definition.statement))
    return json.dumps({**schema.jsonValue(), "layout": {"partitioned_by": partitioned, "clustered_by": clustered}})


def _named(schema: StructType, names: Iterable[str]) -> Iterator[str]:
    """Yield names of columns in the case that the schema has."""
    written = {field.name.casefold(): field.name for field in schema}
    return (written[name.casefold()] for name in names)


def _columns(schema: StructType) -> list[tuple[str, str]]:
    """Return names and types as texts, which have no comments of nested fields."""
    return [(field.name, field.dataType.simpleString()) for field in schema]


def _commented(stored: str, schema: StructType) -> str | None:
    """Return the stored schema with the comments of `schema`, which has the same columns; None where nothing changes."""
    before = json.loads(stored)
    changed = _with_comments(before, schema)
    return json.dumps(changed) if changed != before else None


def _with_comments(stored: Any, now: DataType) -> Any:
    """Return a stored type with the comments of the fields of `now`, at any depth."""
    match now:
        case StructType():
            fields = zip(stored["fields"], now, strict=True)
            return {**stored, "fields": [_field_with_comments(before, each) for before, each in fields]}
        case ArrayType():
            return {**stored, "elementType": _with_comments(stored["elementType"], now.elementType)}
        case MapType():
            key, value = (_with_comments(stored[at], kind) for at, kind in (("keyType", now.keyType), ("valueType", now.valueType)))
            return {**stored, "keyType": key, "valueType": value}
        case _:
            return stored


def _field_with_comments(before: Mapping[str, Any], now: StructField) -> Mapping[str, Any]:
    kept = {key: value for key, value in before["metadata"].items() if key != "comment"}
    said = {key: value for key, value in now.metadata.items() if key == "comment"}
    return {**before, "type": _with_comments(before["type"], now.dataType), "metadata": {**kept, **said}}


def _layout(statement: CreateStreamTable) -> tuple[object, ...]:
    """Return how the table's files are laid out, without the case of column names."""
    return tuple([name.casefold() for name in names] for names in _layouts(statement))


def _layouts(statement: CreateStreamTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return statement.partitioned_by, statement.clustered_by
