"""The facts that a refresh needs for its choice, from the plan and the logs, without a Spark job."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streamtable.algebra.trees import sources_of
from streamtable.catalog.entries import Entry
from streamtable.delta.commit_ids import commits_since, is_same
from streamtable.delta.summaries import CommitSummary, commits
from streamtable.delta.tables import Version
from streamtable.differentiate.registry import prunes_nothing
from streamtable.errors import HistoryLost
from streamtable.refresh.choose import Facts
from streamtable.refresh.cost import costs, too_much
from streamtable.refresh.execute import Run
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.load import load_of
from streamtable.refresh.records import Initiator
from streamtable.settings.session import FULL_SHARE, read_setting, setting_or_default

__all__ = ["facts_of", "foreign"]

_ours: dict[tuple[str, str], Version] = {}
"""The version up to which only refreshes wrote a table, by path and id of the definition. So each commit is read once."""


def facts_of(spark: SparkSession, run: Run) -> Facts:
    """Find out all that `choose` looks at."""
    analysed, frontier = run.analysed, run.frontier
    since: dict[str, tuple[CommitSummary, ...]] = {}
    lost = None
    try:
        since = _since(run, frontier) if frontier else {}
    except HistoryLost as error:
        lost = error.reason
    load = load_of(run.session, run.target, since, analysed.source_names)
    share = (setting_or_default if run.cause.initiator is Initiator.SCHEDULER else read_setting)(spark, FULL_SHARE)
    runs = frontier.runs_of(analysed.fingerprint) if frontier else ()
    estimated = costs(load, runs) if load and share is None else None
    before = frontier.sources if frontier else {}
    changed = frozenset(s for s in sources_of(analysed.tree) if run.target.get(s.path) != before.get(s.path))
    return Facts(
        analysed.fingerprint,
        analysed.obstacle,
        next(iter(analysed.bound.unversioned), None),
        frozenset(path for path, commits_ in since.items() if not any(each.data_change for each in commits_)),
        foreign(run.session, run.entry, frontier) if frontier else None,
        lost,
        None if analysed.obstacle else prunes_nothing(analysed.tree, changed),
        too_much(load, estimated, share) if load else None,
        estimated,
        load,
    )


def foreign(spark: SparkSession, entry: Entry, frontier: Frontier) -> str | None:
    """Describe the first foreign commit since our last one that changed rows, or why the log no longer tells; else None."""
    table, latest = (entry.path, entry.definition.id), entry.state.version
    after = _seen(spark, entry, frontier.base)
    try:
        since = commits(spark, entry.path, after, latest) if after < latest else ()
    except HistoryLost as error:
        return error.reason
    for each in since:
        if each.data_change and entry.definition.id not in each.transactions:
            _ours.pop(table, None)
            return f"version {each.version} of the table ({each.operation}) was not written by a refresh"
    _ours[table] = entry.state.latest
    return None


def _seen(spark: SparkSession, entry: Entry, base: int) -> int:
    """Return the version of the table up to which only refreshes wrote it, as far as this process knows; at least `base`."""
    seen, latest = _ours.get((entry.path, entry.definition.id)), entry.state.latest
    if seen is None or not base < seen.number <= latest.number or not is_same(spark, entry.path, seen, latest):
        return base
    return seen.number


def _since(run: Run, frontier: Frontier) -> dict[str, tuple[CommitSummary, ...]]:
    """Summarise the commits since the frontier, by source. Raises HistoryLost."""
    found = {}
    for path in run.analysed.paths:
        version, before = run.target[path], frontier.sources.get(path)
        if before and before.table_id == version.table_id and before.number < version.number:
            found[path] = commits_since(run.session, path, before, version.number)
    return found
