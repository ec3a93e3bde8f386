"""What is to be refreshed now, and in which order; pure: definitions and the clock are handed in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

import networkx as nx

from streamtable.language.stream_table.ast import Calculated, Cron, Every, Manual, Schedule
from streamtable.language.stream_table.schedule import next_time

__all__ = ["NEVER", "ONCE", "Plan", "ScheduledTable", "Work", "branches", "deadlines", "graph_of", "plan"]

ONCE = datetime.min.replace(tzinfo=timezone.utc)
"""The deadline of a table that was never refreshed: before all others."""

NEVER = datetime.max.replace(tzinfo=timezone.utc)
"""The deadline of a table that nobody asks for."""


@dataclass(frozen=True)
class ScheduledTable:
    """What the scheduler knows of a stream table.

    `since` is the moment from which its schedule counts: when its contents were the query's, or when a refresh was last tried;
    None for a table that was never refreshed. `behind` is False where the versions of its sources tell that nothing changed.
    `zone` is that of a cron expression without its own. `resumed` is when the last RESUME was: it asks for a refresh at once.
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


@dataclass(frozen=True)
class Work:
    """Refresh the table at `path`; what is late is more urgent."""

    path: str
    deadline: datetime


@dataclass(frozen=True)
class Plan:
    """What a cycle does.

    `work` is ordered: the earliest deadline first, but what is read before what reads it. `current` are due, but nothing changed:
    they count as refreshed. `blocked` are due, but read (directly or not) a suspended table, which is named. `wake` is the next
    deadline of all others.
    """

    work: tuple[Work, ...]
    current: tuple[str, ...]
    blocked: Mapping[str, str]
    wake: datetime


def graph_of(tables: Iterable[ScheduledTable]) -> nx.DiGraph[str]:
    """Return the graph of paths, from what is read to what reads it.

    A MANUAL table is read as if it were a base table: its contents move when somebody says so, whatever its own sources do.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    for table in tables:
        graph.add_node(table.path)
        if not isinstance(table.schedule, Manual):
            graph.add_edges_from((source, table.path) for source in table.sources)
    return graph


def deadlines(tables: Mapping[str, ScheduledTable], graph: nx.DiGraph[str]) -> dict[str, datetime]:
    """Return by when each table is to be refreshed; NEVER for what is suspended or asked for by no schedule.

    The deadline counts from the last try and so moves on with each: whoever waits is at some time the most urgent, and a table
    that always fails, or takes longer than its period, starves no other.
    """
    asked: dict[str, frozenset[ScheduledTable]] = {}
    for path in reversed(list(nx.topological_sort(graph))):
        if path not in tables or tables[path].suspended:
            continue
        match tables[path].schedule:
            case Manual():
                pass
            case Calculated():
                asked[path] = frozenset().union(*(asked.get(reader, frozenset()) for reader in graph.successors(path)))
            case _:
                asked[path] = frozenset({tables[path]})
    return {path: min((_next(by, table) for by in asked.get(path, ())), default=NEVER) for path, table in tables.items()}


def _next(by: ScheduledTable, table: ScheduledTable) -> datetime:
    """Return the first time at which the schedule of `by`, or a RESUME, asks for `table`. All that were missed are one."""
    if table.since is None:
        return ONCE
    resumed = table.resumed if table.resumed and table.resumed > table.since else NEVER
    match by.schedule:
        case Every(seconds):
            return min(resumed, table.since + timedelta(seconds=seconds))
        case Cron() as schedule:
            return min(resumed, next_time(schedule, table.since.astimezone(by.zone)))
        case _:
            return NEVER


def branches(graph: nx.DiGraph[str], path: str) -> set[str]:
    """Return the tables that have to be at one vector of versions when `path` is refreshed.

    They lie between `path` and a table that it reaches by several ways which meet nowhere before: at different versions of that
    table, its rows would be joined with rows that they never met. Where all ways pass through one table, its version decides.
    """
    above = graph.subgraph({path, *nx.ancestors(graph, path)})
    gate = nx.immediate_dominators(above.reverse(copy=False), path)
    forks = [node for node in above if node != path and gate[node] == path and above.out_degree(node) > 1]
    return {table for fork in forks for table in nx.descendants(above, fork)} - {path}


def plan(tables: Mapping[str, ScheduledTable], now: datetime, busy: Collection[str] = ()) -> Plan:
    """Return what is to be done at `now`; `busy` tables are being refreshed already, and what needs one of them waits."""
    graph = graph_of(tables.values())
    deadline = deadlines(tables, graph)
    suspended = [path for path, table in tables.items() if table.suspended]
    blocker = {reader: tables[path].name for path in suspended for reader in nx.descendants(graph, path)}
    due = {path for path in tables if deadline[path] <= now and path not in busy}
    urgency: dict[str, datetime] = {}
    for path in sorted(due - blocker.keys(), key=deadline.__getitem__):
        needed = _needed(tables, graph, path)
        if needed.isdisjoint(busy):
            for each in needed:
                urgency.setdefault(each, deadline[path])
    moving = graph.subgraph(urgency)
    for path in reversed(list(nx.topological_sort(moving))):
        urgency[path] = min(urgency[each] for each in (path, *moving.successors(path)))
    behind = {path for path in urgency if tables[path].behind}
    active = behind.union(*(nx.descendants(moving, path) for path in behind))
    # The whole graph, because two tables may be joined by one that is busy; what is not refreshed holds nothing up.
    order = nx.lexicographical_topological_sort(graph, key=lambda path: (urgency.get(path, ONCE), path))
    return Plan(
        tuple(Work(path, urgency[path]) for path in order if path in active),
        tuple(sorted(urgency.keys() - active)),
        {path: blocker[path] for path in sorted(due & blocker.keys())},
        min((each for each in deadline.values() if each > now), default=NEVER),
    )


def _needed(tables: Mapping[str, ScheduledTable], graph: nx.DiGraph[str], path: str) -> set[str]:
    """Return `path` and what is refreshed along with it: the branches of its diamonds, and the CALCULATED tables that it reads."""
    needed, found = set[str](), {path}
    while found:
        needed |= found
        read = {source for each in found for source in graph.predecessors(each) if source in tables}
        calculated = {path for path in read if isinstance(tables[path].schedule, Calculated)}
        found = calculated.union(*(branches(graph, each) for each in found)) - needed
    return needed
