"""The single refresh path: manual, scheduled, cascaded and initial refreshes all run `refresh`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.definition import SUSPENDED
from streamtable.catalog.entries import Entry, table_columns
from streamtable.catalog.paths import HIDDEN
from streamtable.delta.commit import Committed
from streamtable.delta.tables import Version, find_table, sync_catalog, versions
from streamtable.engine import clock
from streamtable.errors import (
    ConcurrentRefresh,
    HistoryLost,
    InvalidQuery,
    NotIncremental,
    RefreshError,
    SourceChanged,
    SourceUnavailable,
    StatementCancelled,
    StreamTableSuspended,
    clear_frames,
)
from streamtable.jvm.failures import cancelled, causes, java_exception, lost_file, out_of_memory, root_cause
from streamtable.jvm.storage import cannot_write, storage_failed, storage_trouble
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.query.analyse import AnalysedQuery, analyse, release
from streamtable.query.checks import AUTO, allow
from streamtable.refresh.choose import FORGOTTEN, NOT_POPULATED, Action, Choice, choose, permitted
from streamtable.refresh.dry_run import reject, rejected
from streamtable.refresh.execute import Run, elapsed, refresh_full, refresh_incremental
from streamtable.refresh.facts import facts_of, foreign
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.history import errors_in_a_row, history
from streamtable.refresh.records import Initiator, Record, annotate
from streamtable.refresh.table_change import NotWhatTheFrontierSays
from streamtable.sessions.internal import lend

__all__ = ["Outcome", "decided_by_versions", "outcome", "pinned", "refresh", "targets"]


@dataclass(frozen=True)
class Outcome:
    """The result of one refresh: the row that REFRESH STREAM TABLE returns."""

    name: str
    action: Action
    reason: str
    rows_inserted: int
    rows_deleted: int
    duration_ms: int
    version: int


def refresh(
    spark: SparkSession,
    entry: Entry,
    full: bool = False,
    vector: Vector | None = None,
    initiator: Initiator = Initiator.MANUAL,
) -> Outcome:
    """Bring the table's contents to the query at the latest versions of its sources, or at the versions in `vector`.

    The versions of the contents never go back: if the frontier is ahead of `vector`, the frontier's version counts.
    Raises StreamTableSuspended, SourceUnavailable, SourceChanged, NotIncremental, ConcurrentRefresh, StorageFailed, RefreshError.
    Then the table keeps its last good state.
    """
    try:
        return _refresh(spark, entry, full, vector or Vector({}, clock.now()), initiator)
    except (Py4JJavaError, CapturedException, RecursionError) as error:
        if cancelled(error):
            raise StatementCancelled(f"the refresh of {entry.definition.name} was cancelled") from error
        if failed := storage_failed(error):
            raise failed from error
        raise RefreshError(f"Spark could not compute the refresh of {entry.definition.name}: {root_cause(error)}") from error


def _refresh(spark: SparkSession, entry: Entry, full: bool, vector: Vector, initiator: Initiator) -> Outcome:
    started = time.perf_counter()
    definition = entry.definition
    if definition.status == SUSPENDED:
        hint = f"ALTER STREAM TABLE {definition.statement.name} RESUME"
        raise StreamTableSuspended(f"{definition.name} is suspended", hint=hint)
    frontier = Frontier.of(entry.state.frontier)
    if not full and frontier is not None and _unchanged(spark, entry, frontier, vector):
        choice = Choice(Action.NO_DATA, "no source changed")
        return outcome(entry, choice, _nothing(spark, entry, frontier, choice, initiator), started)
    analysed = _analyse_again(spark, entry, frontier)
    try:
        _check_columns(entry, analysed)
        run = Run(entry, analysed, frontier, targets(analysed, frontier, vector), vector.at, started, initiator)
        allow(analysed, definition.statement.mode)
        choice = choose(definition.statement.mode, full, frontier, run.target, facts_of(spark, run))
        if choice.reason == NOT_POPULATED and entry.state.frontier is not None:
            choice = replace(choice, reason=FORGOTTEN)
        return _carry_out(run, permitted(definition.statement.mode, definition.name, choice))
    finally:
        release(analysed)


def _analyse_again(spark: SparkSession, entry: Entry, frontier: Frontier | None) -> AnalysedQuery:
    """Analyse the stored query. It was valid at CREATE, so an error now is an error of a source."""
    definition = entry.definition
    session = lend(spark, definition.namespace, definition.settings)
    try:
        analysed = analyse(session, entry.query)
    except InvalidQuery as error:
        gone = any(each in error.reason for each in ("TABLE_OR_VIEW_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "UNRESOLVED_ROUTINE"))
        kind = SourceUnavailable if gone else SourceChanged
        restore = "restore the source, or drop the stream table, which keeps its last contents until then"
        hint = restore if gone else error.hint or restore
        raise kind(f"the query of {definition.name} cannot be read any more: {error.reason}", hint=hint) from error
    # The delta of a table with the same plan was accepted before; the deltas of others are tried once per process.
    tried = frontier is not None and frontier.fingerprint == analysed.fingerprint and not frontier.rejected
    return analysed if tried else replace(analysed, rejected=rejected(analysed))


def _unchanged(spark: SparkSession, entry: Entry, frontier: Frontier, vector: Vector) -> bool:
    """Decide NO_DATA from the catalog and the logs alone: no source has a new version, and nobody else wrote the table."""
    if not decided_by_versions(entry, frontier) or not _in_place(spark, entry):
        return False
    target = _versions(spark, tuple(frontier.sources), frontier, vector)
    return target == dict(frontier.sources) and foreign(spark, entry, frontier) is None


def _in_place(spark: SparkSession, entry: Entry) -> bool:
    """Tell whether the sources' names still lead to the same paths. The files of an external table stay when it is dropped.

    Names with a dot in one of their parts cannot be checked here; the analysis of the query looks for their tables.
    """
    named = ((name.split("."), path) for path, name in entry.definition.sources.items() if not name.startswith("delta.`"))
    return all(
        len(parts) == len(entry.definition.statement.name.parts) and find_table(spark, parts).path == path for parts, path in named
    )


def decided_by_versions(entry: Entry, frontier: Frontier) -> bool:
    """Tell whether equal versions of the sources mean equal contents: nothing unversioned, no view or function."""
    return frontier.exact and not entry.views and not entry.functions


def targets(analysed: AnalysedQuery, frontier: Frontier | None, vector: Vector) -> dict[str, Version]:
    """Return the version of each source to read, the clock included if the query reads it."""
    session = analysed.session
    found = _versions(session, analysed.paths, frontier, vector)
    for path, version in found.items():
        if version is None:
            raise SourceUnavailable(f"the source at {path} is gone", hint="restore it, or drop the stream table")
    target = {path: version for path, version in found.items() if version is not None}
    if granularity := analysed.bound.clock:
        before = frontier.sources.get(CLOCK.path) if frontier else None
        target[CLOCK.path] = clock.tick(granularity, before, session.conf.get("spark.sql.session.timeZone") or "UTC", vector.at)
    return target


def _versions(spark: SparkSession, paths: Sequence[str], frontier: Frontier | None, vector: Vector) -> dict[str, Version | None]:
    """Return the version of each source to read; None for a missing source."""
    before = frontier.sources if frontier else {}
    latest = zip(paths, versions(spark, paths), strict=True)
    return {path: version and pinned(version, vector.versions.get(path), before.get(path)) for path, version in latest}


def pinned(latest: Version, wanted: Version | None, before: Version | None) -> Version:
    """Return `wanted`, unless the source was recreated since, or the contents already have a newer version."""
    if wanted is None or wanted.table_id != latest.table_id:
        return latest
    ahead = before.number if before and before.table_id == latest.table_id else wanted.number
    return replace(latest, number=min(max(wanted.number, ahead), latest.number))


def _check_columns(entry: Entry, analysed: AnalysedQuery) -> None:
    # Types are compared as texts, which have no comments: comments of nested fields may differ.
    stored = {field.name: field.dataType.simpleString() for field in entry.state.schema}
    now = [field.dataType.simpleString() for field in analysed.frame.schema]
    names, columns = table_columns(entry), analysed.frame.columns
    # A table of an earlier release has no record of its sources' columns at CREATE.
    moved = names != columns and sorted(names) == sorted(columns) and not entry.definition.statement.columns
    if moved or [stored.get(name) for name in names] != now:
        raise SourceChanged(
            f"the query of {entry.definition.name} gives other columns than the table has: {analysed.frame.schema.simpleString()}",
            hint="create the stream table again with CREATE OR REPLACE STREAM TABLE",
        )


def _carry_out(run: Run, choice: Choice) -> Outcome:
    match choice.action:
        case Action.NO_DATA:
            assert run.frontier is not None, "without a frontier everything is new"
            moved = replace(run.frontier, sources=run.target, base=run.entry.state.version, at=run.at)
            ahead = moved if run.target != run.frontier.sources else None
            done = _nothing(run.session, run.entry, run.frontier, choice, run.initiator, ahead)
        case Action.DIFFERENTIAL:
            try:
                done = refresh_incremental(run, choice)
            except (NotWhatTheFrontierSays, RefreshError, Py4JJavaError, CapturedException, RecursionError) as error:
                choice = permitted(run.entry.definition.statement.mode, run.entry.definition.name, _instead(run, error))
                clear_frames(error)  # frees the results so far before the full refresh
                run.tried = elapsed(run) if choice.action is Action.FULL else 0
                done = refresh_full(run, choice)
        case _:
            done = refresh_full(run, choice)
    if choice.action is not Action.NO_DATA:
        sync_catalog(run.session, run.entry.definition.statement.name.parts)
    return outcome(run.entry, choice, done, run.started)


def _nothing(
    spark: SparkSession, entry: Entry, frontier: Frontier, choice: Choice, initiator: Initiator, ahead: Frontier | None = None
) -> Committed:
    """Write nothing to the history, unless its last line is a failure.

    `ahead` is the frontier at newer versions with the same rows, as after a compaction. An old frontier could outlive its files.
    """
    version = entry.state.version
    failed = version > frontier.base + 1 and errors_in_a_row(entry, history(spark, [entry]))
    if failed or ahead:
        record = Record(choice.action, choice.reason, 0, initiated_by=initiator.value) if failed else None
        annotate(spark, entry, record, frontier=ahead)
        version += 1
    return Committed(version, 0, 0)


def _instead(run: Run, error: Exception) -> Choice:
    """Choose what is done instead of a differential refresh that cannot be; raise what computing anew would not help.

    Any other error may be one that the query does not have: a term of a delta evaluates expressions on rows that another term takes
    away again. Whether the query has it, evaluating the query says.
    """
    match error:
        case NotWhatTheFrontierSays():
            return Choice(Action.REINITIALIZE, str(error))
        case HistoryLost():
            return Choice(Action.REINITIALIZE, error.reason)
        case ConcurrentRefresh() | SourceUnavailable() | SourceChanged():
            raise error
        case _ if cancelled(error) or cannot_write(error):
            raise error
        case _ if lost := lost_file(error):
            return Choice(Action.REINITIALIZE, lost.reason)
        case AnalysisException():
            found = reject(run.analysed, error)
            if run.entry.definition.statement.mode.needs_rules:
                raise NotIncremental(f"{run.entry.definition.name} cannot be maintained: {found.reason}", hint=AUTO) from error
            run.analysed = replace(run.analysed, rejected=found)
            return Choice(Action.FULL, found.reason)
        case _ if said := out_of_memory(error):
            if run.entry.definition.statement.mode is not RefreshMode.AUTO:
                raise error
            return Choice(Action.FULL, f"a differential refresh takes more memory than there is: {said}")
        case _ if HIDDEN in str(error):  # with the path of a file there
            return Choice(Action.REINITIALIZE, f"an arrangement cannot be read: {root_cause(error)}")
        case _ if any(storage_trouble(java) for java in causes(java_exception(error))):
            raise error
        case _:
            return Choice(Action.REINITIALIZE, f"the delta could not be computed, and the query could: {root_cause(error)}")


def outcome(entry: Entry, choice: Choice, done: Committed, started: float) -> Outcome:
    """Return the result of a refresh."""
    elapsed = round(1000 * (time.perf_counter() - started))
    name = entry.definition.name
    return Outcome(name, choice.action, choice.reason, done.rows_added, done.rows_removed, elapsed, done.version)
