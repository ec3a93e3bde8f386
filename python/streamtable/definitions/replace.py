"""CREATE OR REPLACE and ALTER ... AS: a stream table gets another definition in one commit, or not at all.

The table stays, with its history and its readers. If the plan of the query is the same, only the definition changes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from streamtable.catalog.definition import ACTIVE, SUSPENDED, Definition
from streamtable.catalog.entries import Entry
from streamtable.catalog.immediate import announce
from streamtable.definitions.checks import schema_of
from streamtable.definitions.refusals import (
    Refusal,
    columns_of,
    layouts,
    properties_asked,
    refusal,
    same_layout,
    told,
)
from streamtable.delta.ddl import sync_catalog
from streamtable.engine import clock
from streamtable.language.names import COMMENT
from streamtable.language.stream_table.explained import SAME, SAME_PLAN
from streamtable.query.analyse import AnalysedQuery
from streamtable.refresh.choose import REPLACED, Action, Choice
from streamtable.refresh.execute import refresh_full
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.lineage import reported
from streamtable.refresh.load import load_of
from streamtable.refresh.recording import states_to_keep
from streamtable.refresh.records import MANUAL, annotate
from streamtable.refresh.run import Outcome, begin, outcome

__all__ = ["Effect", "effect", "replace_with"]

REBUILT = "the table is rebuilt in one commit; its history stays"


@dataclass(frozen=True)
class Effect:
    """What another definition does to a table's contents, how its columns change, and why it is refused."""

    does: str
    columns: str | None
    refused: Refusal | None


def effect(spark: SparkSession, existing: Entry, definition: Definition, analysed: AnalysedQuery) -> Effect:
    """Return the effect of another definition; nothing is changed."""
    definition, schema = _placed(existing, definition), schema_of(definition.statement, analysed)
    columns = _other_columns(existing.state.schema, schema)
    if found := refusal(spark, existing, definition, schema):
        return Effect(told(found.error), columns, found)
    does = _effect(existing, definition, analysed, schema)
    if _same_definition(existing.definition, definition):
        does = f"{SAME}; nothing changes" if does == SAME_PLAN else f"{SAME}; {does}"
    elif _resumes(existing, definition):
        does = f"{does}. The table is suspended, and is resumed"
    return Effect(does, columns, None)


def _placed(existing: Entry, definition: Definition) -> Definition:
    """Return the definition at the table's place, if it names none."""
    if definition.statement.location is not None:
        return definition
    return definition.with_statement(location=existing.definition.statement.location)


def _other_columns(before: StructType, after: StructType) -> str | None:
    """Say how the columns change; None where names, types and order stay."""
    old, new = dict(columns_of(before)), dict(columns_of(after))
    if list(old.items()) == list(new.items()):
        return None
    typed = {name: kind.upper() for name, kind in new.items()}
    gone = [name for name in old if name not in new]
    come = [f"{name} {typed[name]}" for name in new if name not in old]
    turned = [f"{name} becomes {typed[name]}" for name in new if name in old and old[name] != new[name]]
    said = [f"without {', '.join(gone)}"] if gone else []
    said += [f"with {', '.join(come)}"] if come else []
    return "; ".join([*said, *turned]) or "in another order"


def _resumes(existing: Entry, definition: Definition) -> bool:
    """Tell whether the statement resumes the table, as CREATE OR REPLACE does, unlike ALTER."""
    return existing.definition.status == SUSPENDED and definition.status == ACTIVE


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
    same_table = columns_of(schema) == columns_of(existing.state.schema) and same_layout(existing, definition)
    return SAME_PLAN if same_plan and same_settings and same_table else REBUILT


def replace_with(spark: SparkSession, existing: Entry, definition: Definition, analysed: AnalysedQuery, started: float) -> Outcome:
    """Give the table another definition. Raises NotSupported for another place, DependentsExist for what readers would lose."""
    definition, schema = _placed(existing, definition), schema_of(definition.statement, analysed)
    if found := refusal(spark, existing, definition, schema):
        raise found.error
    announce(spark, definition.statement.schedule)
    before = existing.definition.statement
    if _resumes(existing, definition):
        definition = definition.resumed_by(existing.state.version + 1, clock.now())
    properties = (
        properties_asked(existing, definition) | {COMMENT: definition.statement.comment} | definition.properties(analysed.bound)
    )
    if _effect(existing, definition, analysed, schema) == SAME_PLAN:
        commented = _commented(existing.state.schema_json, schema)
        annotate(spark, existing, properties=properties, frontier=_decided(existing, definition, analysed), schema_json=commented)
        sync_catalog(spark, before.name.parts)
        elapsed = round(1000 * (time.perf_counter() - started))
        return Outcome(definition.name, Action.NO_DATA, SAME_PLAN, 0, 0, elapsed, existing.state.version + 1)
    kept = {key: value for key, value in {**existing.state.properties, **properties}.items() if value is not None}
    shape: str | None = schema.json()
    partitioned = existing.state.partition_columns
    if (_same_query(existing, definition) or definition.statement.frozen) and columns_of(schema) == columns_of(
        existing.state.schema
    ):
        shape = _commented(existing.state.schema_json, schema)  # without one, readers are told of the rows that differ alone
    if not same_layout(existing, definition):
        shape, partitioned = _laid_out(schema, definition), tuple(_named(schema, definition.statement.partitioned_by))
    state = replace(existing.state, schema_json=schema.json(), properties=kept, partition_columns=partitioned)
    entry = replace(existing, definition=definition, state=state)
    run = begin(entry, analysed, Frontier.of(existing.state.frontier), Vector({}, clock.now()), started, MANUAL)
    run = replace(run, load=load_of(run.session, run.target, {}, analysed.source_names))
    choice = Choice(Action.REINITIALIZE, REPLACED)
    with reported(spark, entry) as report:
        report.analysed(analysed)
        done = refresh_full(run, choice, shape, properties)
        report.done(done.rows_added)
    sync_catalog(spark, before.name.parts)
    return outcome(entry, choice, done, started)


def _decided(existing: Entry, definition: Definition, analysed: AnalysedQuery) -> Frontier | None:
    """Return the frontier with what STATE AUTO decided; None where it says so already."""
    frontier, states = Frontier.of(existing.state.frontier), states_to_keep(definition, analysed)
    return replace(frontier, states=states) if frontier and frontier.states != states else None


def _same_query(existing: Entry, definition: Definition) -> bool:
    """Tell whether expectations, frozen rows or STATE change, and nothing else that decides rows or states."""
    before, after = existing.definition.statement, definition.statement
    same = before.query == after.query and dict(existing.definition.settings) == dict(definition.settings)
    return same and (before.expectations, before.frozen, before.state) != (after.expectations, after.frozen, after.state)


def _laid_out(schema: StructType, definition: Definition) -> str:
    """Return the schema with the layout that the definition asks for, as a commit takes both."""
    partitioned, clustered = (list(_named(schema, names)) for names in layouts(definition.statement))
    return json.dumps({**schema.jsonValue(), "layout": {"partitioned_by": partitioned, "clustered_by": clustered}})


def _named(schema: StructType, names: Iterable[str]) -> Iterator[str]:
    """Yield names of columns in the case that the schema has."""
    written = {field.name.casefold(): field.name for field in schema}
    return (written[name.casefold()] for name in names)


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
