"""The tables that are due now, and their order. Pure functions: definitions and the clock are arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import TypeAlias

from streamtable.catalog.requests import Request
from streamtable.language.stream_table.schedule import (
    Calculated,
    Cron,
    Every,
    Immediate,
    Manual,
    OnUpdate,
    Schedule,
    next_time,
)
from streamtable.schedule.graph import Graph

__all__ = ["NEVER", "ONCE", "Plan", "ScheduledTable", "Work", "deadlines", "graph_of", "plan"]

ONCE = datetime.min.replace(tzinfo=timezone.utc)
"""The deadline of a table that was never refreshed; it is before all others."""

NEVER = datetime.max.replace(tzinfo=timezone.utc)
"""The deadline of a table that no schedule asks for."""


@dataclass(frozen=True)
class ScheduledTable:
    """A stream table, as the scheduler sees it.

    `since` is the start of its schedule: the time at which its contents were the query's, or of the last try; None for a table
    that was never refreshed. `behind` is False if a refresh would find no change. `moved` is True if a source has another version
    than the contents stand for; that the time went on is not enough. `zone` is the time zone of a cron expression without its own.
    `resumed` is the time of the last RESUME, which asks for a refresh at once, and so does a `request` that nobody has taken.
    `pause` is the least time from the last try to the next, while tries fail.
    """

    path: str
    name: str
    schedule: Schedule
    sources: tuple[str, ...]
    since: datetime | None = None
    suspended: bool = False
    behind: bool = True
    zone: tzinfo = timezone.utc
    resumed: datetime | None = None
    moved: bool = False
    request: Request | None = None
    pause: timedelta = timedelta()


@dataclass(frozen=True)
class Work:
    """Refresh the table at `path`. Earlier deadlines are more urgent."""

    path: str
    deadline: datetime


@dataclass(frozen=True)
class Plan:
    """The plan of a cycle.

    `work` is in order of deadlines, but sources come before their readers. `current` tables are due, but nothing changed, so they
    count as refreshed. `blocked` tables are due, but read, directly or not, the named suspended table. `wake` is the next
    deadline of a table; for one that is refreshed now the deadline after that. `watched` tables are made due by a commit of a
    source, from the given time on. `waiting` tables are due, but need the named busy tables, or are busy themselves: no deadline
    and no commit tells when to look at them again.
    """

    work: tuple[Work, ...]
    current: tuple[str, ...]
    blocked: Mapping[str, str]
    wake: datetime
    watched: Mapping[str, datetime] = field(default_factory=dict)
    waiting: Mapping[str, frozenset[str]] = field(default_factory=dict)


Asking: TypeAlias = Mapping[str, Collection[tuple[Schedule, tzinfo]]]
"""The schedules that ask for each table, with the time zone of a cron expression without its own."""


def graph_of(tables: Iterable[ScheduledTable], before: Graph | None = None) -> Graph:
    """Return the graph of the tables: `before` itself if it is the same, with all that it remembers.

    A MANUAL table counts as a base table: its contents move only when a user refreshes it, as by a request.
    """
    made_of = {each.path: each.sources if each.request or not isinstance(each.schedule, Manual) else () for each in tables}
    return before if before is not None and before.made_of == made_of else Graph(made_of)


def deadlines(tables: Mapping[str, ScheduledTable], graph: Graph, asking: Asking | None = None) -> dict[str, datetime]:
    """Return the deadline of each table; NEVER for a suspended table, or one that no schedule asks for.

    The deadline counts from the last try, so each try postpones it. Every waiting table becomes the most urgent at some time. A
    table that always fails, or takes longer than its period, starves no other.
    """
    asking = _asking(tables, graph) if asking is None else asking
    due: dict[str, datetime] = {}
    changes: dict[str, datetime] = {}  # the time at which a refresh may give the table new rows
    for path in graph.order:
        if table := tables.get(path):
            ahead = ONCE if table.moved else min((changes[each] for each in table.sources if each in changes), default=NEVER)
            requested = table.request.at if table.request and not table.suspended else NEVER
            due[path] = min((_next(schedule, zone, table, ahead) for schedule, zone in asking.get(path, ())), default=NEVER)
            due[path] = min(due[path], requested)
            changes[path] = max(due[path], ONCE if table.behind else ahead)
    return {path: due[path] for path in tables}


def _asking(tables: Mapping[str, ScheduledTable], graph: Graph) -> Asking:
    """Return the schedules that ask for each table: its own, or for a CALCULATED one those that ask for its readers."""
    asking: dict[str, Collection[tuple[Schedule, tzinfo]]] = {}
    for path in reversed(graph.order):
        if path not in tables or (table := tables[path]).suspended:
            continue
        match table.schedule:
            case Manual():
                pass
            case Calculated():
                asking[path] = frozenset[tuple[Schedule, tzinfo]]().union(*(asking.get(each, ()) for each in graph.readers[path]))
            case schedule:
                asking[path] = ((schedule, table.zone),)
    return asking


def _next(schedule: Schedule, zone: tzinfo, table: ScheduledTable, ahead: datetime) -> datetime:
    """Return the first time at which a schedule, or a RESUME, asks for `table`. Missed times count as one.

    `ahead` is the time from which a source of `table` is ahead of its contents: that of its refresh, if it is refreshed as well.
    """
    if table.since is None:
        return ONCE
    resumed = table.resumed if table.resumed and table.resumed > table.since else NEVER
    match schedule:
        case Every(seconds):
            return min(resumed, table.since + timedelta(seconds=seconds))
        case OnUpdate():
            return min(resumed, max(ahead, table.since + max(timedelta(seconds=schedule.seconds), table.pause)))
        case Cron():
            return min(resumed, _next_time(schedule, table.since, zone))
        case _:
            return NEVER


@lru_cache(maxsize=4096)
def _next_time(schedule: Cron, since: datetime, zone: tzinfo) -> datetime:
    """Return what `next_time` does: it takes long, and each look asks for the same of a table that was not refreshed since."""
    return next_time(schedule, since.astimezone(zone))


def plan(
    tables: Mapping[str, ScheduledTable], now: datetime, busy: Mapping[str, datetime] = {}, graph: Graph | None = None
) -> Plan:
    """Return the plan at `now`. `busy` tables are refreshed already, as of the given moments; tables that need one of them wait.

    `graph` is the graph of the tables, which remembers what it was asked at the look before.
    """
    graph = graph or graph_of(tables.values())
    asking = _asking(tables, graph)
    deadline = deadlines(tables, graph, asking)
    blocker = _blockers(tables, graph)
    due = {path for path in tables if deadline[path] <= now and path not in busy}
    urgency, waiting = _urgencies(tables, graph, {path: deadline[path] for path in due - blocker.keys()}, busy)
    active = _active(tables, graph, urgency)
    begun = {path: at for path, at in busy.items() if path in tables} | dict.fromkeys(urgency, now)
    upcoming = deadlines(_done(tables, begun), graph, asking) if begun else deadline
    again = {path for path in begun.keys() & busy.keys() if upcoming[path] <= now or tables[path].request}
    # The whole graph, because a busy table may join two others. Tables that are not refreshed hold nothing up.
    order = graph.by(lambda path: urgency.get(path, ONCE)) if active else ()
    return Plan(
        tuple(Work(path, urgency[path]) for path in order if path in active),
        # Readers of a busy table are not current: it may be about to change.
        tuple(sorted(urgency.keys() - active - graph.all_readers(busy))),
        {path: blocker[path] for path in sorted(due & blocker.keys())},
        min((each for each in (*deadline.values(), *upcoming.values()) if each > now), default=NEVER),
        {path: at for path, at in _follow(tables, asking, now, active).items() if path not in blocker},
        waiting | {path: frozenset({path}) for path in again},
    )


def _blockers(tables: Mapping[str, ScheduledTable], graph: Graph) -> dict[str, str]:
    """Return the readers of suspended tables at any depth, with the name of the last one of these in `tables`."""
    found: dict[str, str] = {}
    for path in reversed([path for path, table in tables.items() if table.suspended]):
        left = [path]
        while left:
            more = [each for each in graph.readers[left.pop()] if each not in found]
            found |= dict.fromkeys(more, tables[path].name)
            left += more
    return found


def _urgencies(
    tables: Mapping[str, ScheduledTable], graph: Graph, due: Mapping[str, datetime], busy: Mapping[str, datetime]
) -> tuple[dict[str, datetime], dict[str, frozenset[str]]]:
    """Return the tables that come along with those that are due, with the earliest deadline for which each one is needed.

    A table that needs busy ones waits, and is returned with those.
    """
    needs: dict[str, frozenset[str]] = {}
    left = [*due]
    while left:
        if (path := left.pop()) not in needs:
            needs[path] = _needs(tables, graph, path)
            left += needs[path] - needs.keys()
    held: dict[str, frozenset[str]] = {}
    for path in sorted(needs, key=graph.place.__getitem__) if busy else ():  # what a table needs is above it
        held[path] = frozenset[str]({path} & busy.keys()).union(*(held[each] for each in needs[path]))
    urgency: dict[str, datetime] = {}
    waiting = {path: held[path] for path in due if held.get(path)}
    for path in sorted(due.keys() - waiting.keys(), key=due.__getitem__):
        left = [path]
        while left:
            if (each := left.pop()) not in urgency:
                urgency[each] = due[path]
                left += needs[each]
    for path in reversed(graph.order):
        if path in urgency:
            urgency[path] = min(urgency[each] for each in (path, *graph.readers[path]) if each in urgency)
    return urgency, waiting


def _needs(tables: Mapping[str, ScheduledTable], graph: Graph, path: str) -> frozenset[str]:
    """Return the tables that are refreshed with `path`: the branches of its diamonds, and the CALCULATED tables that it reads.

    Each of them has needs of its own.
    """
    read = (source for source in graph.sources[path] if source in tables)
    return graph.branches(path).union(source for source in read if isinstance(tables[source].schedule, Calculated))


def _active(tables: Mapping[str, ScheduledTable], graph: Graph, urgency: Mapping[str, datetime]) -> set[str]:
    """Return the tables with something to do: those that are behind, and the readers that come along with them."""
    active = set[str]()
    for path in graph.order:
        if path in urgency and (tables[path].behind or not active.isdisjoint(graph.sources[path])):
            active.add(path)
    return active


def _done(tables: Mapping[str, ScheduledTable], begun: Mapping[str, datetime]) -> dict[str, ScheduledTable]:
    """Return the tables as they are when the refreshes that have begun at some moments are done."""
    done = {path: replace(tables[path], since=at, behind=False, moved=False, request=None) for path, at in begun.items()}
    return {**tables, **done}


def _follow(tables: Mapping[str, ScheduledTable], asking: Asking, now: datetime, begun: Collection[str]) -> dict[str, datetime]:
    """Return from when on each table follows the commits of its sources; for one whose refresh begins now, from then on.

    Who wrote refreshes a table IMMEDIATE. A scheduler that hurried would be in his way.
    """
    found: dict[str, datetime] = {}
    for path, schedules in asking.items():
        following = (each for each, _ in schedules if isinstance(each, OnUpdate) and not isinstance(each, Immediate))
        pauses = [each.seconds for each in following]
        if pauses and (start := now if path in begun else tables[path].since):
            found[path] = start + timedelta(seconds=min(pauses))
    return found
