"""Random orders of commits, looks and ends of refreshes: no wake-up is lost, whichever comes first."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from tests.unit.test_loop import NOON, Played, table

from streamtable.language.stream_table.schedule import Calculated, Every, OnUpdate, Schedule, duration
from streamtable.schedule.due import ScheduledTable
from streamtable.schedule.loop import Scheduler


class Moving(Played):
    """Played tables that are behind only while a source has another version than they read."""

    def _seen(self, table: ScheduledTable) -> ScheduledTable:
        moved = any(self.versions[source] != self.read[table.path, source] for source in table.sources)
        return replace(table, behind=moved, moved=moved)


class TwoSteps(Executor):
    """Workers whose refresh first commits, and later ends."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.begun: list[tuple[Future[Any], Any, tuple[Any, ...]]] = []
        self.committed: list[tuple[Future[Any], Any]] = []

    def submit(self, call: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.begun.append((future, call, arguments))
        return future

    def commit(self) -> None:
        if self.begun:
            future, call, arguments = self.begun.pop(self.random.randrange(len(self.begun)))
            self.committed.append((future, call(*arguments)))

    def end(self) -> None:
        if self.committed:
            future, result = self.committed.pop(self.random.randrange(len(self.committed)))
            future.set_result(result)


def chain(random: Random) -> list[ScheduledTable]:
    """Return a chain or a diamond that follows commits, whose tables were made one after another."""

    def made(path: str, sources: str, schedule: Schedule, seconds: float) -> ScheduledTable:
        return table(path, sources, schedule, NOON + timedelta(seconds=seconds + random.random()))

    follows: list[Schedule] = [Calculated(), OnUpdate()]
    return [
        made("a", "base", random.choice(follows), 0),
        made("b", "a", random.choice(follows), 1),
        made("c", random.choice(["b", "a b"]), OnUpdate(), 2),
    ]


def test_a_table_that_waited_for_another_costs_no_looks_while_the_schedulers_are_suspended() -> None:
    a, b = (NOON + timedelta(seconds=seconds) for seconds in (0, 1.5))
    played, workers = Moving(table("a", "base", Calculated(), a), table("b", "a", OnUpdate(), b)), TwoSteps(Random(1))
    played.poll, scheduler = timedelta(hours=1), Scheduler(played, workers)
    played.versions["base"] += 1
    for seconds in (1.2, 2.6):
        played.now = NOON + timedelta(seconds=seconds)
        scheduler.turn(played.now)
    assert scheduler._signs.waiting == {"b": {"a"}}
    played.suspended = True
    workers.commit()
    workers.end()
    before = played.looks
    for _ in range(5):
        scheduler.turn(played.now)
    assert played.looks == before + 1


@pytest.mark.parametrize("start", range(0, 400, 100))
def test_tables_on_update_never_stay_behind_until_the_next_poll(start: int) -> None:
    for seed in range(start, start + 100):
        random = Random(seed)
        played, workers, commits = Moving(*chain(random)), TwoSteps(random), random.randint(1, 4)
        played.poll, played.now = timedelta(hours=1), NOON + timedelta(seconds=random.choice([0, 2, 4.5]))
        scheduler = Scheduler(played, workers)
        for _ in range(random.randint(10, 80)):
            match random.choices(["write", "commit", "end", "pass", "turn"], [5, 4, 4, 2, 5])[0]:
                case "write" if commits:
                    played.versions["base"], commits = played.versions["base"] + 1, commits - 1
                case "commit":
                    workers.commit()
                case "end":
                    workers.end()
                case "pass":
                    played.now += timedelta(seconds=random.choice([0.1, 0.5, 1.2]))
                case _:
                    scheduler.turn(played.now)
        for _ in range(150):
            workers.commit()
            workers.end()
            played.now += timedelta(seconds=0.1)
            scheduler.turn(played.now)
        assert played.looks < 60, f"seed {seed}: looks cost, too"
        behind = [each.path for each in played.tables.values() if played._seen(each).moved]
        assert behind == [], f"seed {seed}: nothing woke the scheduler for {behind}"


@pytest.mark.parametrize("start", range(0, 200, 100))
def test_a_short_duration_never_waits_for_the_next_poll(start: int) -> None:
    for seed in range(start, start + 100):
        random = Random(seed)
        schedules: list[Schedule] = [duration("2s"), duration("3s"), Calculated(), OnUpdate()]
        sources = {"a": "base", "b": random.choice(["base", "a"]), "c": random.choice(["b", "a b"])}
        tables = [table(path, read, random.choice(schedules), NOON) for path, read in sources.items()]
        played, workers = Played(*tables), TwoSteps(random)
        played.poll, scheduler = timedelta(hours=1), Scheduler(played, workers)
        for _ in range(150):
            for _ in range(random.randint(0, 3)):  # a refresh may take longer than its duration
                random.choice([workers.commit, workers.end])()
            played.now += timedelta(seconds=random.choice([0.1, 0.1, 0.5]))
            scheduler.turn(played.now)
        for _ in range(60):
            workers.commit()
            workers.end()
            played.now += timedelta(seconds=0.1)
            scheduler.turn(played.now)
        ages = {each.path: played.now - (each.since or NOON) for each in played.tables.values() if isinstance(each.schedule, Every)}
        late = [path for path, age in ages.items() if age > timedelta(seconds=4.5)]
        assert late == [], f"seed {seed}: nothing woke the scheduler for {late}"
