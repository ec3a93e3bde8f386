"""CREATE OR REPLACE and ALTER ... AS: a stream table gets another definition in one commit, or not at all.

The table stays, with its history and its readers. If the plan of the query is the same, only the definition changes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.catalog.definition import ACTIVE, DELTA_PROPERTIES, SUSPENDED, Definition
from streamtable.catalog.entries import Entry, entries
from streamtable.catalog.objects import named_by_some
from streamtable.definitions.checks import schema_of
from streamtable.delta.tables import sync_catalog
from streamtable.engine import clock
from streamtable.errors import DependentsExist, InvalidQuery, NotSupported
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.refresh.choose import REPLACED, Action, Choice
from streamtable.refresh.execute import Run, refresh_full
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.load import load_of
from streamtable.refresh.records import Initiator, annotate
from streamtable.refresh.run import Outcome, outcome, targets
from streamtable.sessions.internal import lend

__all__ = ["effect", "replace_with"]

SAME_PLAN = "the plan of the query is the same: only the definition changes"
AGAIN = "DROP STREAM TABLE first, then CREATE it"
REBUILT = "the table is rebuilt in one commit; its history stays"


def effect(spark: SparkSession, existing: Entry, definition: Definition, analysed: AnalysedQuery) -> str:
    """Return the effect of another definition on the table's contents. Raises the errors of the replacement."""
    _, schema = _allowed(spark, existing, definition, analysed)
    return _effect(existing, definition, analysed, schema)


def _effect(existing: Entry, definition: Definition, analysed: AnalysedQuery, schema: StructType) -> str:
    frontier = Frontier.of(existing.state.frontier)
    # For an operator without a rule the fingerprint has only its name, which does not prove the same plan.
    same_plan = frontier is not None and frontier.fingerprint == analysed.fingerprint and analysed.obstacle is None
    same_settings = dict(definition.settings) == dict(existing.definition.settings)
    same_table = _columns(schema) == _columns(existing.state.schema) and _same_layout(existing, definition)
    return SAME_PLAN if same_plan and same_settings and same_table else REBUILT


def replace_with(spark: SparkSession, existing: Entry, definition: Definition, analysed: AnalysedQuery, started: float) -> Outcome:
    """Give the table another definition. Raises NotSupported for another place, DependentsExist for what readers would lose."""
    definition, schema = _allowed(spark, existing, definition, analysed)
    before = existing.definition.statement
    if existing.definition.status == SUSPENDED and definition.status == ACTIVE:
        definition = definition.resumed_by(existing.state.version + 1, clock.now())
    # Properties that only the old definition set go back to their defaults.
    properties: dict[str, str | None] = {key: DELTA_PROPERTIES.get(key) for key, _ in before.properties}
    properties |= {"comment": definition.statement.comment, **dict(definition.statement.properties)}
    properties |= definition.properties(analysed.bound)
    if _effect(existing, definition, analysed, schema) == SAME_PLAN:
        annotate(spark, existing, properties=properties, schema_json=_commented(existing.state.schema_json, schema))
        sync_catalog(spark, before.name.parts)
        elapsed = round(1000 * (time.perf_counter() - started))
        return Outcome(definition.name, Action.NO_DATA, SAME_PLAN, 0, 0, elapsed, existing.state.version + 1)
    kept = {key: value for key, value in {**existing.state.properties, **properties}.items() if value is not None}
    shape, partitioned = schema.json(), existing.state.partition_columns
    if not _same_layout(existing, definition):
        shape, partitioned = _laid_out(schema, definition), tuple(_named(schema, definition.statement.partitioned_by))
    state = replace(existing.state, schema_json=schema.json(), properties=kept, partition_columns=partitioned)
    entry = replace(existing, definition=definition, state=state)
    frontier, vector = Frontier.of(existing.state.frontier), Vector({}, clock.now())
    run = Run(entry, analysed, frontier, targets(analysed, frontier, vector), vector.at, started, Initiator.MANUAL)
    run.load = load_of(run.session, run.target, {}, analysed.names)
    choice = Choice(Action.REINITIALIZE, REPLACED)
    done = refresh_full(run, choice, shape, properties)
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
    _keep_readers(spark, existing, schema)
    return definition, schema


def _keep_readers(spark: SparkSession, existing: Entry, schema: StructType) -> None:
    """Refuse to remove or retype a column that readers use."""
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
    """Return the columns of the table that a reader uses. A reader that cannot be analysed lacks others already."""
    try:
        analysed = analyse(lend(spark, reader.definition.namespace, reader.definition.settings), reader.query)
    except InvalidQuery:
        return frozenset()
    release(analysed)
    return analysed.columns_of(path)


def _allow_layout(spark: SparkSession, existing: Entry, definition: Definition) -> None:
    """Refuse what Delta cannot lay out anew, and a table whose changes somebody reads: they are in files of the old layout."""
    if existing.definition.statement.clustered_by and definition.statement.partitioned_by:
        raise NotSupported("Delta cannot partition a table that is clustered", hint=AGAIN)
    name = existing.definition.name
    readers = [each.definition.name for each in _readers(spark, existing)]
    if readers or named_by_some(spark, existing.definition.statement.name.parts):
        who = ", ".join(readers) or "a queue or a publication"
        raise DependentsExist(f"{name} is read by {who}, and cannot be laid out anew", hint=f"drop {who} first, or keep the layout")


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


def _columns(schema: StructType) -> list[tuple[object, ...]]:
    return [(field.name, field.dataType) for field in schema]


def _commented(stored: str, schema: StructType) -> str | None:
    """Return the stored schema with the comments of `schema`, which has the same columns; None where nothing changes."""
    changed = json.loads(stored)
    for before, now in zip(changed["fields"], schema, strict=True):
        kept = {key: value for key, value in before["metadata"].items() if key != "comment"}
        before["metadata"] = {**kept, **now.metadata}
    return json.dumps(changed) if changed != json.loads(stored) else None


def _layout(statement: CreateStreamTable) -> tuple[object, ...]:
    """Return how the table's files are laid out, without the case of column names."""
    return tuple([name.casefold() for name in names] for names in _layouts(statement))


def _layouts(statement: CreateStreamTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return statement.partitioned_by, statement.clustered_by
