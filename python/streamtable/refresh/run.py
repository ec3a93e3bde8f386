"""The single refresh path: manual, scheduled, cascaded and initial refreshes all run `refresh`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.catalog.definition import SUSPENDED, suspended
from streamtable.catalog.entries import Entry
from streamtable.catalog.graph import refuse_cycle
from streamtable.catalog.immediate import announce_again
from streamtable.catalog.paths import HIDDEN
from streamtable.delta.commit import Committed
from streamtable.delta.ddl import sync_catalog
from streamtable.delta.tables import find_table
from streamtable.engine import clock
from streamtable.errors import (
    ConcurrentRefresh,
    ExpectationFailed,
    HistoryLost,
    NotIncremental,
    RefreshError,
    SourceChanged,
    SourceUnavailable,
    clear_frames,
)
from streamtable.jvm.failures import cancelled, causes, java_exception, lost_file, out_of_memory, root_cause
from streamtable.jvm.storage import cannot_write, storage_trouble
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.query.analyse import AnalysedQuery, release
from streamtable.query.checks import AUTO, allow
from streamtable.query.fits import check_columns, refuse_moved
from streamtable.query.stored import analyse_again
from streamtable.refresh.backfill import Given
from streamtable.refresh.choose import FORGOTTEN, NOT_POPULATED, Action, Choice, Facts, choose, permitted
from streamtable.refresh.dry_run import reject, rejected
from streamtable.refresh.execute import Run, refresh_full, refresh_incremental
from streamtable.refresh.facts import facts_of, foreign
from streamtable.refresh.frontier import Frontier, Vector, decided_by_versions
from streamtable.refresh.history import errors_in_a_row, history
from streamtable.refresh.lineage import Report, reported
from streamtable.refresh.phases import Phase, Phases
from streamtable.refresh.recording import elapsed
from streamtable.refresh.records import MANUAL, Cause, Initiator, Record, annotate
from streamtable.refresh.spark_errors import told_of
from streamtable.refresh.table_change import NotWhatTheFrontierSays
from streamtable.refresh.targets import target_versions, targets
from streamtable.sessions.internal import lend
from streamtable.settings.session import TRACES, setting_or_default
from streamtable.tracing import phase, tell, traced

__all__ = ["Outcome", "begin", "decided", "outcome", "populate", "refresh"]


_INITIAL = Cause(Initiator.INITIAL)


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
    cause: Cause = MANUAL,
) -> Outcome:
    """Bring the table's contents to the query at the latest versions of its sources, or at the versions in `vector`.

    The versions of the contents never go back: if the frontier is ahead of `vector`, the frontier's version counts. The commit ends
    the request of the `cause`, if there is one.
    Raises StreamTableSuspended, SourceUnavailable, SourceChanged, DependencyCycle, NotIncremental, ConcurrentRefresh,
    ExpectationFailed, StorageFailed, RefreshError. Then the table keeps its last good state.
    """
    wanted = vector or Vector({}, clock.now())
    return _observed(spark, entry, cause, lambda report: _refresh(spark, entry, full, wanted, cause, report))


def populate(spark: SparkSession, entry: Entry, analysed: AnalysedQuery, given: Given | None = None) -> Outcome:
    """Fill the table that CREATE made, from the query as CREATE analysed it, or with `given` rows. Raises what `refresh` raises."""

    def fill(report: Report) -> Outcome:
        run = begin(entry, analysed, None, Vector({}, clock.now()), time.perf_counter(), _INITIAL)
        return _decide(spark, replace(run, given=given), report)

    return _observed(spark, entry, _INITIAL, fill)


def _observed(spark: SparkSession, entry: Entry, cause: Cause, work: Callable[[Report], Outcome]) -> Outcome:
    """Do the work of a refresh, with its span and its events of lineage. Raises an error of ours in place of one of Spark's."""
    name = entry.definition.name
    with (
        traced(setting_or_default(spark, TRACES), "refresh", table=name, initiator=cause.initiator.value),
        reported(spark, entry) as report,
    ):
        with told_of(f"the refresh of {name}"):
            done = work(report)
        report.done(done.rows_inserted)
        tell(action=done.action.value, reason=done.reason, rows_inserted=done.rows_inserted, rows_deleted=done.rows_deleted)
        return done


def _refresh(
    spark: SparkSession,
    entry: Entry,
    full: bool,
    vector: Vector,
    cause: Cause,
    report: Report,
) -> Outcome:
    if cause.initiator is not Initiator.IMMEDIATE:
        announce_again(spark, entry.definition.statement.schedule)
    started = time.perf_counter()
    definition = entry.definition
    if definition.status == SUSPENDED:
        raise suspended(definition)
    frontier = Frontier.of(entry.state.frontier)
    if not full and frontier is not None and _unchanged(spark, entry, frontier, vector):
        choice = Choice(Action.NO_DATA, "no source changed")
        return outcome(entry, choice, _nothing(spark, entry, frontier, choice, cause), started)
    with phase("analyse"):
        analysed = _analyse_again(spark, entry, frontier, anew=full)
    try:
        return _decide(spark, begin(entry, analysed, frontier, vector, started, cause), report, full)
    finally:
        release(analysed)


def begin(entry: Entry, analysed: AnalysedQuery, frontier: Frontier | None, vector: Vector, started: float, cause: Cause) -> Run:
    """Return the facts of a refresh to the latest versions of the sources, or to those of `vector`."""
    phases, target = Phases(started), targets(entry.definition, analysed, frontier, vector)
    phases.ended(Phase.ANALYSE)
    return Run(entry, analysed, frontier, target, vector.at, started, cause, phases)


def _decide(spark: SparkSession, run: Run, report: Report, full: bool = False) -> Outcome:
    """Choose what the refresh does, and do it."""
    report.analysed(run.analysed)
    with phase("choose"):
        facts, choice = decided(spark, run, full)
    run.phases.ended(Phase.CHOOSE)
    choice = replace(choice, reason=run.given.reason) if run.given else choice
    return _carry_out(replace(run, load=facts.load), choice)


def decided(spark: SparkSession, run: Run, full: bool = False) -> tuple[Facts, Choice]:
    """Return what a refresh does, and the facts that decide. Raises DependencyCycle, NotIncremental and SourceChanged for it."""
    entry, mode = run.entry, run.entry.definition.statement.mode
    check_columns(entry, run.analysed)
    allow(run.analysed, mode)
    if entry.path in run.analysed.paths or set(run.analysed.paths) != entry.definition.sources.keys():
        refuse_cycle(spark, entry, run.analysed.paths)  # a view leads elsewhere now
    facts = facts_of(spark, run)
    choice = choose(mode, full, run.frontier, run.target, facts)
    if choice.reason == NOT_POPULATED and entry.state.frontier is not None:
        choice = replace(choice, reason=FORGOTTEN)
    return facts, permitted(mode, entry.definition.name, choice)


def _analyse_again(spark: SparkSession, entry: Entry, frontier: Frontier | None, anew: bool) -> AnalysedQuery:
    """Analyse the stored query, and try whether Spark plans its delta where that is not known."""
    definition = entry.definition
    session = lend(spark, definition.namespace, definition.settings)
    analysed = analyse_again(session, entry, anew)
    # The delta of a table with the same plan was accepted before; the deltas of others are tried once per process.
    tried = frontier is not None and frontier.fingerprint == analysed.fingerprint and not frontier.rejected
    return analysed if tried else replace(analysed, rejected=rejected(analysed))


def _unchanged(spark: SparkSession, entry: Entry, frontier: Frontier, vector: Vector) -> bool:
    """Decide NO_DATA from the catalog and the logs alone: no source has a new version, and nobody else wrote the table."""
    if not decided_by_versions(entry, frontier) or not _in_place(spark, entry):
        return False
    target = target_versions(spark, tuple(frontier.sources), frontier, vector)
    return target == dict(frontier.sources) and foreign(spark, entry, frontier) is None


def _in_place(spark: SparkSession, entry: Entry) -> bool:
    """Tell whether the sources' names still lead to the same paths. The files of an external table stay when it is dropped.

    Names with a dot in one of their parts cannot be checked here; the analysis of the query looks for their tables.
    """
    named = ((name.split("."), path) for path, name in entry.definition.sources.items() if not name.startswith("delta.`"))
    return all(
        len(parts) == len(entry.definition.statement.name.parts) and find_table(spark, parts).path == path for parts, path in named
    )


def _carry_out(run: Run, choice: Choice) -> Outcome:
    match choice.action:
        case Action.NO_DATA:
            assert run.frontier is not None, "without a frontier everything is new"
            moved = replace(run.frontier, sources=run.target, base=run.entry.state.version, at=run.at)
            ahead = moved if run.target != run.frontier.sources else None
            if ahead:
                refuse_moved(run.entry, run.analysed)
            done = _nothing(run.session, run.entry, run.frontier, choice, run.cause, ahead)
        case Action.DIFFERENTIAL:
            try:
                with phase("differential"):
                    done = refresh_incremental(run, choice)
            except (NotWhatTheFrontierSays, RefreshError, Py4JJavaError, CapturedException, RecursionError) as error:
                run, choice = _instead(run, error)
                run.phases.ended(Phase.GIVEN_UP)
                permitted(run.entry.definition.statement.mode, run.entry.definition.name, choice)
                clear_frames(error)  # frees the results so far before the full refresh
                with phase("full"):
                    done = refresh_full(replace(run, tried=elapsed(run) if choice.action is Action.FULL else 0), choice)
        case _:
            with phase("full"):
                done = refresh_full(run, choice)
    if choice.action is not Action.NO_DATA:
        with phase("catalog"):
            sync_catalog(run.session, run.entry.definition.statement.name.parts)
    return outcome(run.entry, choice, done, run.started)


def _nothing(
    spark: SparkSession,
    entry: Entry,
    frontier: Frontier,
    choice: Choice,
    cause: Cause,
    ahead: Frontier | None = None,
) -> Committed:
    """Write nothing to the history, unless its last line is a failure, or the refresh was requested.

    `ahead` is the frontier at newer versions with the same rows, as after a compaction. An old frontier could outlive its files.
    """
    version = entry.state.version
    told = cause.request or (version > frontier.base + 1 and errors_in_a_row(entry, history(spark, [entry])))
    if told or ahead:
        record = Record(choice.action, choice.reason, 0).because_of(cause) if told else None
        annotate(spark, entry, record, frontier=ahead)
        version += 1
    return Committed(version, 0, 0)


def _instead(run: Run, error: Exception) -> tuple[Run, Choice]:
    """Choose what is done in place of a differential refresh that failed; raise an error that computing anew would meet again.

    Any other error may be none of the query's: a term of a delta evaluates expressions on rows that another term takes away again.
    The full refresh evaluates the query, and so tells.
    """
    mode = run.entry.definition.statement.mode
    match error:
        case NotWhatTheFrontierSays():
            return run, Choice(Action.REINITIALIZE, str(error))
        case HistoryLost():
            return run, Choice(Action.REINITIALIZE, error.reason)
        case ConcurrentRefresh() | SourceUnavailable() | SourceChanged() | ExpectationFailed():
            raise error
        case _ if cancelled(error) or cannot_write(error):
            raise error
        case _ if lost := lost_file(error):
            return run, Choice(Action.REINITIALIZE, lost.reason)
        case AnalysisException():
            found = reject(run.analysed, error)
            if mode.needs_rules:
                raise NotIncremental(f"{run.entry.definition.name} cannot be maintained: {found.reason}", hint=AUTO) from error
            return replace(run, analysed=replace(run.analysed, rejected=found)), Choice(Action.FULL, found.reason)
        case _ if said := out_of_memory(error):
            if mode is not RefreshMode.AUTO:
                raise error
            return run, Choice(Action.FULL, f"a differential refresh takes more memory than there is: {said}")
        case _ if HIDDEN in str(error):  # with the path of a file there
            return run, Choice(Action.REINITIALIZE, f"an arrangement cannot be read: {root_cause(error)}")
        case _ if any(storage_trouble(java) for java in causes(java_exception(error))):
            raise error
        case _:
            return run, Choice(Action.REINITIALIZE, f"the delta failed, so the table was recomputed: {root_cause(error)}")


def outcome(entry: Entry, choice: Choice, done: Committed, started: float) -> Outcome:
    """Return the result of a refresh."""
    elapsed = round(1000 * (time.perf_counter() - started))
    name = entry.definition.name
    return Outcome(name, choice.action, choice.reason, done.rows_added, done.rows_removed, elapsed, done.version)
