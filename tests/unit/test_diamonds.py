"""Two schedulers over random graphs, at random speeds, while all base tables are written: no table ever mixes two versions.

The world is played: what a table holds is, for each base table, the set of versions that it was derived from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.workers import OnDemand

from streamtable.delta.tables import Version
from streamtable.language.stream_table.schedule import Calculated, OnUpdate, Schedule, duration
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.targets import pinned
from streamtable.schedule.cycle import Refreshed, Task
from streamtable.schedule.due import ScheduledTable
from streamtable.schedule.interface import Failed, Observation
from streamtable.schedule.loop import ELSEWHERE, Scheduler

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
BASES = ("x", "y")


@dataclass
class World:
    """Tables with all their versions; `made` are the contents of each, from its first version on."""

    tables: Mapping[str, ScheduledTable]
    now: datetime = NOON
    made: dict[str, list[Mapping[str, frozenset[int]]]] = field(default_factory=dict)
    frontiers: dict[str, Frontier] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.made = {path: [] for path in self.tables}
        for base in BASES:
            self.made[base] = [{base: frozenset({0})}]

    def latest(self, path: str) -> Version:
        return Version("id", len(self.made[path]) - 1)

    def write(self, base: str) -> None:
        self.made[base].append({base: frozenset({len(self.made[base])})})

    def refresh(self, task: Task) -> Refreshed:
        """Do what `carry_out` and `refresh` do, with their own decisions."""
        before = self.frontiers.get(task.path)
        if task.joins and before is not None and before.ahead_of(task.vector):
            return Refreshed(self.latest(task.path), before.sources, skipped=True)
        known = before.sources if before else {}
        target = {
            path: pinned(self.latest(path), task.vector.versions.get(path), known.get(path))
            for path in self.tables[task.path].sources
        }
        if before is None or target != before.sources:
            content: dict[str, frozenset[int]] = {}
            for path, version in target.items():
                for base, numbers in self.made[path][version.number].items() if version.number >= 0 else ():
                    content[base] = content.get(base, frozenset()) | numbers
            self.made[task.path].append(content)
            self.frontiers[task.path] = Frontier(target, {}, 0, 0, "", "", exact=True, at=task.vector.at)
        return Refreshed(self.latest(task.path), target)


@dataclass
class Eyes:
    """A scheduler's engine. A vector is not read in one moment: what a glance took in may be older than the rest."""

    world: World
    early: dict[str, Version] = field(default_factory=dict)

    def glance(self) -> None:
        self.early = {path: self.world.latest(path) for path in self.world.made if path < "t2"}

    def observe(self) -> Observation:
        world = self.world
        vector = Vector({path: self.early.get(path, world.latest(path)) for path in world.made}, world.now)
        self.early = {}
        return Observation(
            {path: self._table(table, vector) for path, table in world.tables.items()}, vector, timedelta(seconds=1), 4
        )

    def _table(self, table: ScheduledTable, vector: Vector) -> ScheduledTable:
        frontier = self.world.frontiers.get(table.path)
        now = {} if frontier is None else {table.path: self.world.latest(table.path), **frontier.sources}
        behind = not now or any(vector.versions[path] != version for path, version in now.items())
        moved = frontier is not None and any(vector.versions[path] != version for path, version in frontier.sources.items())
        return replace(table, since=frontier.at if frontier else None, behind=behind, moved=moved)

    def committed(self, versions: Iterable[tuple[str, Version]]) -> bool:
        return any(self.world.latest(path).number > version.number for path, version in versions)

    def refresh(self, task: Task, attempt: int, stopping: Event) -> Refreshed | Failed:
        return self.world.refresh(task)

    def alive(self) -> bool:
        return True

    def skip(self, path: str, reason: str) -> None:
        assert reason == ELSEWHERE, f"nothing fails here: {path} {reason}"

    def cancel(self, task: Task) -> None:
        raise AssertionError("nothing is stopped here")


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, ScheduledTable]:
    made: dict[str, ScheduledTable] = {}
    schedules: list[Schedule] = [duration("1s"), duration("3s"), duration("1h"), Calculated(), OnUpdate(), OnUpdate(duration("3s"))]
    for number in range(draw(st.integers(2, 7))):
        sources = draw(st.lists(st.sampled_from([*BASES, *made]), min_size=1, max_size=3, unique=True))
        made[f"t{number}"] = ScheduledTable(f"t{number}", f"t{number}", draw(st.sampled_from(schedules)), tuple(sources))
    return made


def run(world: World, eyes: list[Eyes], schedulers: list[Scheduler], workers: list[OnDemand], steps: list[tuple[int, int]]) -> None:
    """Play: a base table is written, time passes, a scheduler looks or turns, or one of its refreshes comes to its end."""
    for kind, number in steps:
        which = number % len(schedulers)
        match kind:
            case 0:
                world.write(BASES[number % len(BASES)])
            case 1:
                world.now += timedelta(seconds=number / 4)
            case 2:
                schedulers[which].turn(world.now)
            case 3:
                eyes[which].glance()
            case _ if workers[which].begun:
                workers[which].finish(workers[which].paths()[number % len(workers[which].begun)])


def finish(world: World, scheduler: Scheduler, worker: OnDemand) -> None:
    """Let one scheduler alone do what is left, once every schedule has come."""
    for _ in range(40):
        scheduler.turn(world.now)
        while worker.begun:
            worker.finish(worker.paths()[0])
            scheduler.turn(world.now)
        world.now += timedelta(hours=1)


@settings(deadline=None, max_examples=60)
@given(graphs(), st.lists(st.tuples(st.sampled_from([0, 1, 2, 2, 3, 4, 4, 4]), st.integers(0, 20)), min_size=20, max_size=120))
def test_no_table_ever_mixes_two_versions_and_all_become_current(
    tables: dict[str, ScheduledTable], steps: list[tuple[int, int]]
) -> None:
    world = World(tables)
    workers = [OnDemand(), OnDemand()]
    eyes = [Eyes(world), Eyes(world)]
    schedulers = [Scheduler(each, worker) for each, worker in zip(eyes, workers, strict=True)]
    run(world, eyes, schedulers, workers, steps)
    while workers[1].begun:
        workers[1].finish(workers[1].paths()[0])
    finish(world, schedulers[0], workers[0])
    for path in tables:
        for content in world.made[path]:
            assert all(len(numbers) == 1 for numbers in content.values()), f"{path} joins two versions: {content}"
    asked = Eyes(world).observe().tables
    scheduled = [path for path, table in asked.items() if not isinstance(table.schedule, Calculated)]
    assert [path for path in scheduled if asked[path].behind] == []


def test_the_check_finds_a_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamtable.schedule.graph.branches", lambda graph, path: frozenset())
    tables = {
        "a": ScheduledTable("a", "a", duration("1h"), ("x",)),
        "j": ScheduledTable("j", "j", duration("1s"), ("a", "x")),
    }
    world, worker = World(tables), OnDemand()
    scheduler = Scheduler(eyes := Eyes(world), worker)
    run(world, [eyes], [scheduler], [worker], [(2, 0), (4, 0), (2, 0), (4, 0), (0, 0), (1, 8), (2, 0), (4, 0)])
    assert world.made["j"] == [{"x": {0}}, {"x": {0, 1}}]
