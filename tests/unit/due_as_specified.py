"""What is due, told as plainly as possible: each question asks the tables around, at any cost. `schedule/due.py` answers the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache

import networkx as nx

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
from streamtable.schedule.due import NEVER, ONCE, Plan, ScheduledTable, Work

Busy = Mapping[str, datetime]


def edges(tables: Mapping[str, ScheduledTable]) -> nx.DiGraph[str]:
    """Return the graph with an edge from each source to its reader; a MANUAL table reads nothing until it is asked for."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(tables)
    for table in tables.values():
        if table.request or not isinstance(table.schedule, Manual):
            graph.add_edges_from((source, table.path) for source in table.sources)
    return graph


def branches(graph: nx.DiGraph[str], path: str) -> set[str]:
    """Return what lies between a table and the forks above it, of which it is the immediate dominator."""
    above = graph.subgraph({path, *nx.ancestors(graph, path)})
    gate = nx.immediate_dominators(above.reverse(), path)
    forks = [node for node in above if node != path and gate[node] == path and above.out_degree(node) > 1]
    return {table for fork in forks for table in nx.descendants(above, fork)} - {path}


class Specified:
    """The tables at one moment, of which `busy` ones are refreshed."""

    def __init__(self, tables: Mapping[str, ScheduledTable], graph: nx.DiGraph[str] | None = None) -> None:
        self.tables, self.graph = tables, graph or edges(tables)
        self.deadline, self.changes = lru_cache(None)(self._deadline), lru_cache(None)(self._changes)

    def asking(self, path: str) -> set[ScheduledTable]:
        """Return the tables whose schedules ask for one: itself, or for a CALCULATED one its readers."""
        table = self.tables.get(path)
        if table is None or table.suspended or isinstance(table.schedule, Manual):
            return set()
        if isinstance(table.schedule, Calculated):
            return {by for reader in self.graph.successors(path) for by in self.asking(reader)}
        return {table}

    def ahead(self, table: ScheduledTable) -> datetime:
        """Return from when on a source has something new."""
        if table.moved:
            return ONCE
        return min((self.changes(each) for each in self.graph.predecessors(table.path) if each in self.tables), default=NEVER)

    def _deadline(self, path: str) -> datetime:
        table = self.tables[path]
        requested = [table.request.at] if table.request and not table.suspended else []
        return min([NEVER, *requested, *(next_of(by, table, self.ahead(table)) for by in self.asking(path))])

    def _changes(self, path: str) -> datetime:
        table = self.tables[path]
        return max(self.deadline(path), ONCE if table.behind else self.ahead(table))

    def needed(self, path: str) -> set[str]:
        """Return a table and all that is refreshed with it."""
        read = [each for each in self.graph.predecessors(path) if each in self.tables]
        more = {each for each in read if isinstance(self.tables[each].schedule, Calculated)} | branches(self.graph, path)
        return {path}.union(*(self.needed(each) for each in more))

    @cached_property
    def blocker(self) -> dict[str, str]:
        """Return the readers of suspended tables, with the name of one of these."""
        suspended = [path for path, table in self.tables.items() if table.suspended]
        return {reader: self.tables[path].name for path in suspended for reader in nx.descendants(self.graph, path)}

    def watched(self, path: str, now: datetime, active: set[str]) -> datetime | None:
        """Return from when on a table follows the commits of its sources."""
        following = [by.schedule for by in self.asking(path)]
        pauses = [each.seconds for each in following if isinstance(each, OnUpdate) and not isinstance(each, Immediate)]
        start = now if path in active else self.tables[path].since
        return start + timedelta(seconds=min(pauses)) if start and pauses and path not in self.blocker else None

    def plan(self, now: datetime, busy: Busy) -> Plan:
        """Return what `due.plan` has to return."""
        due = {path for path in self.tables if self.deadline(path) <= now and path not in busy}
        needed = {path: self.needed(path) for path in due - self.blocker.keys()}
        waiting = {path: frozenset(held) for path, them in needed.items() if (held := them & busy.keys())}
        come = {each for path, them in needed.items() if path not in waiting for each in them}

        def urgency(path: str) -> datetime:
            asked = [self.deadline(each) for each, them in needed.items() if each not in waiting and path in them]
            return min([*asked, *(urgency(reader) for reader in self.graph.successors(path) if reader in come)])

        def active(path: str) -> bool:
            return self.tables[path].behind or any(active(each) for each in self.graph.predecessors(path) if each in come)

        active_ = {path for path in come if active(path)}
        settled = {path for path in come - active_ if busy.keys().isdisjoint(nx.ancestors(self.graph, path))}
        begun = {path: at for path, at in busy.items() if path in self.tables} | dict.fromkeys(come, now)
        done = {path: replace(self.tables[path], since=at, behind=False, moved=False, request=None) for path, at in begun.items()}
        after = Specified({**self.tables, **done}, self.graph)
        again = {path for path in busy if path in self.tables and (after.deadline(path) <= now or self.tables[path].request)}
        times = [each.deadline(path) for each in (self, after) for path in self.tables]
        return Plan(
            tuple(Work(path, urgency(path)) for path in self.order({path: urgency(path) for path in come}) if path in active_),
            tuple(sorted(settled)),
            {path: self.blocker[path] for path in due & self.blocker.keys()},
            min((time for time in times if time > now), default=NEVER),
            {path: at for path in self.tables if (at := self.watched(path, now, active_))},
            waiting | {path: frozenset({path}) for path in again},
        )

    def order(self, urgency: Mapping[str, datetime]) -> list[str]:
        """Return all paths, each after its sources: the most urgent one first, and what is not refreshed at once."""
        done: list[str] = []
        while open_ := [path for path in self.graph if path not in done and {*self.graph.predecessors(path)} <= {*done}]:
            done.append(min(open_, key=lambda path: (urgency.get(path, ONCE), path)))
        return done


def next_of(by: ScheduledTable, table: ScheduledTable, ahead: datetime) -> datetime:
    """Return when the schedule of a table asks for another."""
    if table.since is None:
        return ONCE
    resumed = table.resumed if table.resumed and table.resumed > table.since else NEVER
    schedule: Schedule = by.schedule
    match schedule:
        case Every(seconds):
            return min(resumed, table.since + timedelta(seconds=seconds))
        case OnUpdate():
            return min(resumed, max(ahead, table.since + max(timedelta(seconds=schedule.seconds), table.pause)))
        case Cron():
            return min(resumed, next_time(schedule, table.since.astimezone(by.zone)))
        case _:
            return NEVER
