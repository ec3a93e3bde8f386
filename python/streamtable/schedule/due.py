"""The tables that are due now, and their order. Pure functions: definitions and the clock are arguments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo

import networkx as nx

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

__all__ = ["NEVER", "ONCE", "Plan", "ScheduledTable", "Work", "branches", "deadlines", "graph_of", "plan"]

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


def graph_of(tables: Iterable[ScheduledTable]) -> nx.DiGraph[str]:
    """Return the graph of paths, with an edge from each source to its reader.

    A MANUAL table counts as a base table: its contents move only when a user refreshes it, as by a request.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    for table in tables:
        graph.add_node(table.path)
        if table.request or not isinstance(table.schedule, Manual):
            graph.add_edges_from((source, table.path) for source in table.sources)
    return graph


def deadlines(tables: Mapping[str, ScheduledTable], graph: nx.DiGraph[str]) -> dict[str, datetime]:
    """Return the deadline of each table; NEVER for a suspended table, or one that no schedule asks for.

    The deadline counts from the last try, so each try postpones it. Every waiting table becomes the most urgent at some time. A
    table that always fails, or takes longer than its period, starves no other.
    """
    asking = _asking(tables, graph)
    due: dict[str, datetime] = {}
    changes: dict[str, datetime] = {}  # the time at which a refresh may give the table new rows
    for path in nx.topological_sort(graph):
        if path in tables:
            table = tables[path]
            ahead = ONCE if table.moved else min((changes[each] for each in table.sources if each in changes), default=NEVER)
            requested = table.request.at if table.request and not table.suspended else NEVER
            due[path] = min((_next(by, table, ahead) for by in asking.get(path, ())), default=NEVER)
            due[path] = min(due[path], requested)
            changes[path] = max(due[path], ONCE if table.behind else ahead)
    return {path: due[path] for path in tables}


def _asking(tables: Mapping[str, ScheduledTable], graph: nx.DiGraph[str]) -> dict[str, frozenset[ScheduledTable]]:
    """Return the tables whose schedules ask for each table: itself, or for a CALCULATED one its readers."""
    asking: dict[str, frozenset[ScheduledTable]] = {}
    for path in reversed(list(nx.topological_sort(graph))):
        if path not in tables or tables[path].suspended:
            continue
        match tables[path].schedule:
            case Manual():
                pass
            case Calculated():
                asking[path] = frozenset().union(*(asking.get(reader, frozenset()) for reader in graph.successors(path)))
            case _:
                asking[path] = frozenset({tables[path]})
    return asking


def _next(by: ScheduledTable, table: ScheduledTable, ahead: datetime) -> datetime:
    """Return the first time at which the schedule of `by`, or a RESUME, asks for `table`. Missed times count as one.

    `ahead` is the time from which a source of `table` is ahead of its contents: that of its refresh, if it is refreshed as well.
    """
    if table.since is None:
        return ONCE
    resumed = table.resumed if table.resumed and table.resumed > table.since else NEVER
    match by.schedule:
        case Every(seconds):
            return min(resumed, table.since + timedelta(seconds=seconds))
        case OnUpdate() as schedule:
            return min(resumed, max(ahead, table.since + max(timedelta(seconds=schedule.seconds), table.pause)))
        case Cron() as schedule:
            return min(resumed, next_time(schedule, table.since.astimezone(by.zone)))
        case _:
            return NEVER


def branches(graph: nx.DiGraph[str], path: str) -> set[str]:
    """Return the tables that need one vector of versions when `path` is refreshed: the branches of its diamonds.

    A diamond lies between `path` and a table that it reads by several ways that meet nowhere before. At different versions of that
    table, rows would be joined that never existed together. If all ways pass through one table, that table's version decides.
    """
    above = graph.subgraph({path, *nx.ancestors(graph, path)})
    gate = nx.immediate_dominators(above.reverse(copy=False), path)
    forks = [node for node in above if node != path and gate[node] == path and above.out_degree(node) > 1]
    return {table for fork in forks for table in nx.descendants(above, fork)} - {path}


def plan(tables: Mapping[str, ScheduledTable], now: datetime, busy: Mapping[str, datetime] = {}) -> Plan:
    """Return the plan at `now`. `busy` tables are refreshed already, as of the given moments; tables that need one of them wait."""
    graph = graph_of(tables.values())
    deadline = deadlines(tables, graph)
    suspended = [path for path, table in tables.items() if table.suspended]
    blocker = {reader: tables[path].name for path in suspended for reader in nx.descendants(graph, path)}
    due = {path for path in tables if deadline[path] <= now and path not in busy}
    urgency: dict[str, datetime] = {}
    waiting: dict[str, frozenset[str]] = {}
    for path in sorted(due - blocker.keys(), key=deadline.__getitem__):
        needed = _needed(tables, graph, path)
        if held := needed.intersection(busy):
            waiting[path] = frozenset(held)
        else:
            for each in needed:
                urgency.setdefault(each, deadline[path])
    moving = graph.subgraph(urgency)
    for path in reversed(list(nx.topological_sort(moving))):
        urgency[path] = min(urgency[each] for each in (path, *moving.successors(path)))
    behind = {path for path in urgency if tables[path].behind}
    active = behind.union(*(nx.descendants(moving, path) for path in behind))
    # Readers of a busy table are not current: it may be about to change.
    unsettled = set[str]().union(*(nx.descendants(graph, path) for path in busy if path in graph))
    begun = {path: at for path, at in busy.items() if path in tables} | dict.fromkeys(urgency, now)
    upcoming = _upcoming(tables, graph, begun)
    again = {path for path in begun.keys() & busy.keys() if upcoming[path] <= now or tables[path].request}
    # The whole graph, because a busy table may join two others. Tables that are not refreshed hold nothing up.
    order = nx.lexicographical_topological_sort(graph, key=lambda path: (urgency.get(path, ONCE), path))
    return Plan(
        tuple(Work(path, urgency[path]) for path in order if path in active),
        tuple(sorted(urgency.keys() - active - unsettled)),
        {path: blocker[path] for path in sorted(due & blocker.keys())},
        min((each for each in (*deadline.values(), *upcoming.values()) if each > now), default=NEVER),
        {path: at for path, at in _follow(tables, graph, now, active).items() if path not in blocker},
        waiting | {path: frozenset({path}) for path in again},
    )


def _upcoming(tables: Mapping[str, ScheduledTable], graph: nx.DiGraph[str], begun: Mapping[str, datetime]) -> dict[str, datetime]:
    """Return the deadlines that hold when the refreshes that have begun at some moments are done."""
    done = {path: replace(tables[path], since=at, behind=False, moved=False, request=None) for path, at in begun.items()}
    return deadlines({**tables, **done}, graph)


def _follow(
    tables: Mapping[str, ScheduledTable], graph: nx.DiGraph[str], now: datetime, begun: Collection[str]
) -> dict[str, datetime]:
    """Return from when on each table follows the commits of its sources; for one whose refresh begins now, from then on.

    Who wrote refreshes a table IMMEDIATE. A scheduler that hurried would be in his way.
    """
    since = {path: now if path in begun else table.since for path, table in tables.items()}
    found: dict[str, datetime] = {}
    for path, asking in _asking(tables, graph).items():
        following = (by.schedule for by in asking if isinstance(by.schedule, OnUpdate))
        pauses = [each.seconds for each in following if not isinstance(each, Immediate)]
        if pauses and (start := since[path]):
            found[path] = start + timedelta(seconds=min(pauses))
    return found


def _needed(tables: Mapping[str, ScheduledTable], graph: nx.DiGraph[str], path: str) -> set[str]:
    """Return `path` and the tables refreshed with it: the branches of its diamonds, and the CALCULATED tables that it reads."""
    needed, found = set[str](), {path}
    while found:
        needed |= found
        read = {source for each in found for source in graph.predecessors(each) if source in tables}
        calculated = {path for path in read if isinstance(tables[path].schedule, Calculated)}
        found = calculated.union(*(branches(graph, each) for each in found)) - needed
    return needed
