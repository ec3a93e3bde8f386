"""Alerts: tables that are late, suspended, failing or rebuilt, and sources whose readers fall behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import chain, takewhile

from pyspark.sql import SparkSession

from streamtable.catalog.definition import SUSPENDED
from streamtable.catalog.entries import CATALOG, Entry
from streamtable.observe.expectations import counts_of
from streamtable.observe.freshness import Freshness
from streamtable.observe.health import Health, SourceState
from streamtable.refresh.choose import NOT_POPULATED, REPLACED, Action
from streamtable.refresh.history import history
from streamtable.schedule.switch import switch
from streamtable.settings.session import ALERTS_BACKLOG, read_setting

__all__ = ["Alert", "AlertKind", "alerts"]

RECENT = timedelta(days=1)
"""The time for which a rebuild is an alert. It is over then, but people may want to know its reason."""


class AlertKind(str, Enum):
    """The subject of an alert; people see the value."""

    STALE = "STALE"
    NOT_POPULATED = "NOT_POPULATED"
    SUSPENDED = "SUSPENDED"
    FAILED = "FAILED"
    REBUILT = "REBUILT"
    UNREADABLE = "UNREADABLE"
    EXPECTATION = "EXPECTATION"
    BACKLOG = "BACKLOG"
    HISTORY_EXPIRING = "HISTORY_EXPIRING"
    HISTORY_LOST = "HISTORY_LOST"
    SOURCE_UNREADABLE = "SOURCE_UNREADABLE"
    SOURCE_GONE = "SOURCE_GONE"
    SCHEDULER_SUSPENDED = "SCHEDULER_SUSPENDED"


@dataclass(frozen=True)
class Alert:
    """An alert about the table, or another reader of changes, `name`, and maybe one of its sources.

    `since` tells one occasion from the next.
    """

    name: str
    kind: AlertKind
    since: datetime | None
    text: str
    source: str | None = None


_OF_SOURCES = {
    SourceState.EXPIRING: AlertKind.HISTORY_EXPIRING,
    SourceState.LOST: AlertKind.HISTORY_LOST,
    SourceState.UNREADABLE: AlertKind.SOURCE_UNREADABLE,
    SourceState.GONE: AlertKind.SOURCE_GONE,
}


def alerts(
    spark: SparkSession,
    found: Sequence[Entry],
    fresh: Mapping[str, Freshness],
    health: Sequence[Health],
    unreadable: Iterable[tuple[str, str]] = (),
) -> Iterator[Alert]:
    """Yield the current alerts of the given tables and sources, and of the catalog that they are in.

    `unreadable` are the names of tables that nobody can read, each with the reason.
    """
    if since := switch(spark).suspended_since:
        yield Alert(CATALOG, AlertKind.SCHEDULER_SUSPENDED, since, "no scheduler refreshes anything until ALTER SCHEDULER RESUME")
    for name, reason in unreadable:
        yield Alert(name, AlertKind.UNREADABLE, None, f"it cannot be read, and is not refreshed: {reason}")
    for entry in found:
        yield from _of_table(spark, entry, fresh[entry.path])
    most = read_setting(spark, ALERTS_BACKLOG)
    for each in health:
        if kind := _OF_SOURCES.get(each.state):
            yield Alert(each.name, kind, each.behind_since, f"{each.source}: {each.warning}", each.source)
        if each.waiting > most:
            text = f"{each.source}: more than {most} versions with changes wait to be read, the first since {each.behind_since}"
            yield Alert(each.name, AlertKind.BACKLOG, each.behind_since, text, each.source)


def _of_table(spark: SparkSession, entry: Entry, age: Freshness) -> Iterator[Alert]:
    name, error = entry.definition.name, entry.definition.error
    if entry.definition.status == SUSPENDED:
        since = error.at if error else None
        yield Alert(name, AlertKind.SUSPENDED, since, error.message if error else "by ALTER STREAM TABLE ... SUSPEND")
    for each, _, failed in counts_of(entry):
        if failed:
            text = f"rows fail the expectation {each.name} ({each.condition.text}); expectations() counts them"
            yield Alert(name, AlertKind.EXPECTATION, None, text)
    lines = history(spark, [entry])  # is read as far back as it is asked for
    last = next(lines, None)
    if age.overdue:
        never = "it, or a stream table that it reads, was never refreshed"
        text = f"the contents are as of {age.data_timestamp}" if age.data_timestamp else never
        waits = f"; it waits: {last.record.reason}" if last and last.record.action is Action.SKIPPED else ""
        yield Alert(name, AlertKind.STALE, age.deadline, f"{text}; a refresh was due by {age.deadline}{waits}")
    elif entry.state.frontier is None and age.deadline is None:
        yield Alert(name, AlertKind.NOT_POPULATED, None, f"REFRESH STREAM TABLE {entry.definition.statement.name}")
    recent = list(takewhile(lambda line: line.at > age.now - RECENT, chain([last] if last else [], lines)))
    if recent and recent[0].record.action is Action.FAILED:
        yield Alert(name, AlertKind.FAILED, recent[0].at, recent[0].record.reason)
    for line in recent:
        if line.record.action is Action.REINITIALIZE and line.record.reason not in (NOT_POPULATED, REPLACED):
            yield Alert(name, AlertKind.REBUILT, line.at, line.record.reason)
