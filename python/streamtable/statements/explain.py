"""EXPLAIN: how a table is maintained or would be, and why, one row for each operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import Entry, find
from streamtable.definitions.alter import with_query
from streamtable.definitions.checks import analysed_for
from streamtable.definitions.create import refused_anew
from streamtable.definitions.replace import Effect, effect
from streamtable.differentiate.registry import findings
from streamtable.language.names import Query
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.expectations import Expectation, Violation
from streamtable.language.stream_table.explained import COLUMNS, CREATE, FOLLOWED_BY, HELD_BY, READ_BY, READS, REPLACE
from streamtable.language.stream_table.history import Backfill
from streamtable.observe.results import Rows
from streamtable.query.analyse import AnalysedQuery, release
from streamtable.query.followed import followers
from streamtable.query.frozen import Frozen
from streamtable.query.stored import analyse_again
from streamtable.refresh.dry_run import rejected
from streamtable.refresh.explain import delta_text, optional_states, stored_states
from streamtable.refresh.verdict import of_definition, of_next_refresh
from streamtable.sessions.internal import lend

__all__ = ["explained", "explained_create", "explained_query"]


def explained(spark: SparkSession, entry: Entry, delta: bool) -> Rows:
    """Tell what the next refresh of a table does and why, by operator; with `delta` also the queries that it runs."""
    definition = entry.definition
    session = lend(spark, definition.namespace, definition.settings)
    analysed = analyse_again(session, entry)
    try:
        analysed = replace(analysed, rejected=rejected(analysed))
        rows = [of_next_refresh(spark, entry, analysed), *_judged(analysed, stored_states(analysed, entry))]
        if delta:
            rows += [("Delta SQL", True, text) for text in delta_text(analysed, entry)]
        return rows
    finally:
        release(analysed)


def _judged(analysed: AnalysedQuery, stored: Sequence[tuple[str, str]] = ()) -> Rows:
    judged = [analysed.rejected] if analysed.rejected else []
    rows: Rows = [(f.operator, f.incremental, f.reason) for f in (*judged, *findings(analysed.tree))]
    rows += [(state, True, said) for state, said in (*optional_states(analysed), *stored)]
    expectations = analysed.judged.expectations if analysed.judged else ()
    rows += [_expected(each, analysed.obstacle is None) for each in expectations]
    return [*rows, *([_frozen(analysed.frozen)] if analysed.frozen else [])]


def _frozen(frozen: Frozen) -> tuple[Any, ...]:
    said = "Rows for which it is TRUE stay as they are; the table is exact outside the frozen rows, and VERIFY compares these"
    return f"Frozen ({frozen.condition.text})", True, said


_MADE_OF = {
    Violation.KEEP: "stay in the table and are counted",
    Violation.DROP_ROW: "are counted and left out of the table",
    Violation.FAIL_UPDATE: "make the refresh fail, and the table stays as it was",
}


def _expected(expectation: Expectation, incremental: bool) -> tuple[Any, ...]:
    what = f"Expectation {expectation.name} ({expectation.condition.text})"
    counted = "counted from what changed" if incremental else "counted in all rows"
    return what, incremental, f"Rows for which it is not TRUE {_MADE_OF[expectation.violation]}; {counted}"


def explained_create(spark: SparkSession, statement: CreateStreamTable) -> Rows:
    """Tell how a table would be maintained; nothing is made."""
    located, existing = find(spark, statement.name)
    rows = _planned(spark, existing if statement.or_replace else None, *analysed_for(spark, statement, located, existing))
    if existing:
        return rows
    refused = refused_anew(spark, located, statement)
    return [*rows, *_first(statement.backfill), *([(CREATE, False, refused)] if refused else [])]


def explained_query(spark: SparkSession, entry: Entry, query: Query) -> Rows:
    """Tell what another query would do to a table."""
    return _planned(spark, entry, *with_query(spark, entry, query))


def _first(backfill: Backfill | None) -> Rows:
    """Say where the first contents come from, unless it is the query."""
    if backfill is None:
        return []
    how = "trusted" if backfill.trusted else "which must be those of the query"
    return [("Backfill", True, f"The first contents are the rows of {backfill.table}, {how}; its columns are those of the query")]


def _planned(spark: SparkSession, replaced: Entry | None, definition: Definition, analysed: AnalysedQuery) -> Rows:
    try:
        rows = [of_definition(definition.statement.mode, analysed), *_judged(analysed)]
        if replaced:
            found = effect(spark, replaced, definition, analysed)
            rows += _replaced(found, followers(spark, replaced, readers=False) if found.refused else (), analysed)
        return rows
    finally:
        release(analysed)


def _replaced(found: Effect, holders: Iterable[str], analysed: AnalysedQuery) -> Rows:
    """Tell of the effect in the last row; before it, of other columns, and of those who have to do with a refusal."""
    rows: Rows = [(COLUMNS, True, f"The table gets other columns: {found.columns}")] if found.columns else []
    if refusal := found.refused:
        rows += [(READS, True, name) for name in analysed.source_names.values() if refusal.by_columns]
        rows += [(READ_BY if refusal.by_columns else FOLLOWED_BY, False, name) for name in refusal.followers]
        rows += [(HELD_BY, False, name) for name in holders]
    return [*rows, (REPLACE, refusal is None, found.does)]
