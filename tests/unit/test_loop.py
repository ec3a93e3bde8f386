"""The scheduler's loop, with tables, clock and workers that are played."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from threading import Event

import pytest
from tests.unit.workers import AtOnce, OnDemand

from streamtable.catalog.requests import Request
from streamtable.delta.tables import Version
from streamtable.language.stream_table.schedule import Manual, OnUpdate, Schedule, cron, duration
from streamtable.refresh.frontier import Vector
from streamtable.schedule.cancelling import CANCEL_AGAIN
from streamtable.schedule.cycle import Refreshed, Task
from streamtable.schedule.due import ScheduledTable
from streamtable.schedule.interface import Again, Failed, Observation
from streamtable.schedule.loop import ELSEWHERE, Scheduler, look_now

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)


class Played:
    """Tables whose refresh takes a version each; `broken` ones fail, `resting` ones after so many pauses of ten
    seconds; another session gives those that are `elsewhere` another version of the source. diamonds are `needless`.
    """

    def __init__(self, *tables: ScheduledTable) -> None:
        self.tables = {table.path: table for table in tables}
        self.versions = {path: 1 for table in tables for path in (table.path, *table.sources)}
        self.now, self.parallelism, self.looks = NOON, 4, 0
        self.read = {(table.path, source): 1 for table in tables for source in table.sources}
        self.broken: set[str] = set()
        self.attempts: list[tuple[str, int, float]] = []
        self.resting: dict[str, int] = {}
        self.elsewhere, self.needless = set[str](), False
        self.refreshed: list[Task] = []
        self.skips: list[tuple[str, str]] = []
        self.cancelled: list[str] = []
        self.living, self.in_real_time = True, False
        self.poll, self.asked = timedelta(seconds=1), list[str]()
        self.suspended = False

    def alive(self) -> bool:
        return self.living

    def observe(self) -> Observation:
        self.looks += 1
        if self.in_real_time:
            self.now = datetime.now(timezone.utc)
        vector = Vector({path: Version("id", number) for path, number in self.versions.items()}, self.now)
        tables = {path: self._seen(table) for path, table in self.tables.items()}
        return Observation(tables, vector, self.poll, self.parallelism, self.suspended)

    def _seen(self, table: ScheduledTable) -> ScheduledTable:
        """Return a table ON UPDATE as it is: behind when a source has another version than its last refresh read."""
        if not isinstance(table.schedule, OnUpdate) or table.since is None:
            return table
        moved = any(self.versions[source] != self.read[table.path, source] for source in table.sources)
        return replace(table, behind=moved, moved=moved)

    def committed(self, versions: Iterable[tuple[str, Version]]) -> bool:
        self.asked = sorted(path for path, _ in versions)
        return any(self.versions[path] > version.number for path, version in versions)

    def refresh(self, task: Task, attempt: int, stopping: Event) -> Refreshed | Failed | Again:
        self.attempts.append((task.path, attempt, (self.now - NOON).total_seconds()))
        if attempt <= self.resting.get(task.path, 0):
            return Again(timedelta(seconds=10))
        self.refreshed.append(task)
        if task.path in self.broken:
            return Failed(f"{task.name} failed")
        self.versions[task.path] += 1
        self.read |= {(task.path, path): version.number for path, version in task.vector.versions.items()}
        self.tables[task.path] = replace(self.tables[task.path], since=task.vector.at, request=None)
        moved = {path: Version("id", 99) for path in task.vector.versions if task.path in self.elsewhere}
        return Refreshed(
            Version("id", self.versions[task.path]), {**task.vector.versions, **moved}, skipped=self.needless and task.joins
        )

    def skip(self, path: str, reason: str) -> None:
        self.skips.append((path, reason))

    def cancel(self, task: Task) -> None:
        self.cancelled.append(task.path)

    def paths(self) -> list[str]:
        """Return what was refreshed since the last call."""
        found = [task.path for task in self.refreshed]
        self.refreshed.clear()
        return found


def table(path: str, sources: str = "base", schedule: Schedule | None = None, since: datetime | None = None) -> ScheduledTable:
    return ScheduledTable(path, f"shop.{path}", schedule or duration("10s"), tuple(sources.split()), since)


def turns(scheduler: Scheduler, played: Played, seconds: float, count: int = 6) -> None:
    """Move the clock on, and let the loop go round until nothing is left to do at that time."""
    played.now += timedelta(seconds=seconds)
    for _ in range(count):
        scheduler.turn(played.now)


def test_a_chain_is_refreshed_in_order_and_then_only_when_it_is_due() -> None:
    played = Played(table("c", "b"), table("b", "a"), table("a"))
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 0)
    assert played.paths() == ["a", "b", "c"]
    turns(scheduler, played, 9)
    assert played.paths() == []
    turns(scheduler, played, 1)
    assert played.paths() == ["a", "b", "c"]


def test_a_cycle_reads_each_base_table_at_one_version_whatever_is_written_meanwhile() -> None:
    played = Played(table("a"), table("b"), table("j", "a b base"))
    workers = OnDemand()
    scheduler = Scheduler(played, workers)
    turns(scheduler, played, 0)
    for path in ("a", "b"):
        workers.finish(path)
        played.versions["base"] += 1
    turns(scheduler, played, 0.1)
    workers.finish("j")
    read = {task.path: {path: version.number for path, version in task.vector.versions.items()} for task in played.refreshed}
    assert read == {"a": {"base": 1}, "b": {"base": 1}, "j": {"a": 2, "b": 2, "base": 1}}


def test_independent_tables_run_side_by_side_up_to_the_setting_the_most_urgent_first() -> None:
    played = Played(*(table(name, since=NOON - timedelta(seconds=age)) for name, age in (("a", 11), ("b", 99), ("c", 50))))
    played.parallelism = 2
    workers = OnDemand()
    scheduler = Scheduler(played, workers)
    turns(scheduler, played, 0)
    assert workers.paths() == ["b", "c"]
    workers.finish("c")
    turns(scheduler, played, 0.1)
    assert workers.paths() == ["b", "a"]


def test_a_table_that_is_tried_again_takes_no_place_of_the_others_meanwhile() -> None:
    played = Played(
        table("a", schedule=duration("1m")), table("reader", "a"), *(table(name, schedule=duration("5s")) for name in ("b", "c"))
    )
    played.parallelism, played.resting, played.broken = 1, {"a": 2}, {"a"}
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 0)
    assert (played.paths(), played.skips) == (["b", "c"], [])
    for _ in range(2):
        turns(scheduler, played, 5)
        assert played.paths() == ["b", "c"]
    turns(scheduler, played, 10)
    assert played.paths() == ["a", "reader", "b", "c"], "the reader's next time has come meanwhile"
    assert played.skips == [("reader", "shop.a failed")], "it waited until the last attempt"
    for seconds in (39, 1):
        turns(scheduler, played, seconds)
    expected = [("a", 1, 0), ("a", 2, 10), ("a", 3, 20), ("a", 1, 60)]
    assert [each for each in played.attempts if each[0] == "a"] == expected, "then by its schedule again"


def test_nobody_starves_when_there_is_more_to_do_than_time() -> None:
    """Each refresh takes two seconds: three tables that are wanted each second are always late, and the fourth is never the latest."""
    often = (table(name, schedule=duration("1s"), since=NOON) for name in "abc")
    played = Played(*often, table("d", since=NOON))
    played.parallelism = 1
    workers, begun = OnDemand(), list[str]()
    scheduler = Scheduler(played, workers)
    for _ in range(60):
        turns(scheduler, played, 2)
        begun += workers.paths()
        workers.finish(begun[-1])
    assert len(begun) == 60
    assert all(set(begun[i : i + 10]) == set("abcd") for i in range(50)), begun


def test_a_table_is_never_refreshed_twice_at_once_and_does_not_hold_up_others() -> None:
    played = Played(table("slow", since=NOON), table("quick", "slow", since=NOON), table("other", since=NOON))
    workers = OnDemand()
    scheduler = Scheduler(played, workers)
    turns(scheduler, played, 10)
    assert sorted(workers.paths()) == ["other", "slow"]
    workers.finish("other")
    turns(scheduler, played, 30)
    assert sorted(workers.paths()) == ["other", "slow"]
    workers.finish("slow")
    turns(scheduler, played, 1)
    assert sorted(workers.paths()) == ["other", "quick", "slow"]


def test_nothing_is_refreshed_that_did_not_change() -> None:
    played = Played(replace(table("a", since=NOON), behind=False))
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 60)
    assert played.paths() == []
    played.tables["a"] = replace(played.tables["a"], behind=True)
    turns(scheduler, played, 9)
    assert played.paths() == []
    turns(scheduler, played, 1)
    assert played.paths() == ["a"]


def test_the_readers_of_a_failed_table_are_skipped_and_it_is_said_once() -> None:
    played = Played(table("a"), table("b", "a"), table("c", "b"), table("other"))
    played.broken = {"a"}
    scheduler = Scheduler(played, AtOnce())
    for _ in range(3):
        turns(scheduler, played, 10)
        assert sorted(played.paths()) == ["a", "other"]
    assert played.skips == [("b", "shop.a failed"), ("c", "shop.a failed")]
    played.broken = set()
    turns(scheduler, played, 10)
    assert sorted(played.paths()) == ["a", "b", "c", "other"]
    played.broken = {"a"}
    turns(scheduler, played, 10)
    assert len(played.skips) == 4


def test_the_readers_of_a_suspended_table_are_skipped() -> None:
    played = Played(replace(table("a"), suspended=True), table("b", "a"))
    scheduler = Scheduler(played, AtOnce())
    for _ in range(3):
        turns(scheduler, played, 10)
    assert (played.paths(), played.skips) == ([], [("b", "shop.a is suspended")])


@pytest.mark.parametrize("schedule", [duration("1d"), cron("0 2 * * *", "UTC")])
def test_a_resumed_table_and_those_that_waited_for_it_are_refreshed_at_the_next_look(schedule: Schedule) -> None:
    played = Played(
        table("a", schedule=schedule, since=NOON), table("b", "a", schedule, NOON), table("other", schedule=schedule, since=NOON)
    )
    played.broken = {"a"}
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 86_400)
    assert sorted(played.paths()) == ["a", "other"]
    played.tables["a"] = replace(played.tables["a"], suspended=True)
    turns(scheduler, played, 86_400)
    assert played.paths() == ["other"]
    assert played.skips == [("b", "shop.a failed"), ("b", "shop.a is suspended")]
    played.tables["a"] = replace(played.tables["a"], suspended=False, resumed=played.now + timedelta(seconds=1))
    turns(scheduler, played, 2)
    assert played.paths() == ["a"], "it fails again: its reader had its turn"
    turns(scheduler, played, 60)
    assert played.paths() == [], "the next try is by the schedule"
    played.tables["a"] = replace(played.tables["a"], suspended=True)
    turns(scheduler, played, 86_400)
    assert played.paths() == ["other"]
    played.broken = set()
    played.tables["a"] = replace(played.tables["a"], suspended=False, resumed=played.now)
    turns(scheduler, played, 2)
    assert played.paths() == ["a", "b"]


def test_a_tip_whose_branch_another_session_moved_is_skipped_and_says_so_once() -> None:
    played = Played(table("a"), table("b"), table("j", "a b"), table("top", "j"))
    played.elsewhere = {"a"}
    scheduler = Scheduler(played, AtOnce())
    for _ in range(2):
        turns(scheduler, played, 10)
    assert set(played.paths()) == {"a", "b"}
    assert played.skips == [("j", ELSEWHERE), ("top", ELSEWHERE)]
    played.elsewhere = set()
    turns(scheduler, played, 10)
    assert sorted(played.paths()) == ["a", "b", "j", "top"]
    played.elsewhere = {"a"}
    turns(scheduler, played, 10)
    assert len(played.skips) == 2


def test_a_refresh_that_another_session_made_needless_is_told_once() -> None:
    played = Played(table("a"), table("b"), table("j", "a b"))
    played.needless = True
    scheduler = Scheduler(played, AtOnce())
    for _ in range(3):
        turns(scheduler, played, 10)
    assert played.skips == [("j", ELSEWHERE)]


def test_a_new_table_with_a_cron_schedule_waits_for_its_first_time() -> None:
    played = Played(table("a", schedule=cron("*/5 * * * *", "UTC")))
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 60)
    turns(scheduler, played, 60)
    assert played.paths() == []
    turns(scheduler, played, 180)
    assert played.paths() == ["a"]


@pytest.mark.parametrize("schedule", [duration("10s"), OnUpdate(duration("10s")), cron("* * * * *", "UTC")], ids=str)
def test_a_clock_that_is_set_back_silences_nobody(schedule: Schedule) -> None:
    """The schedule begins anew, also where the table has a time that is yet to come, and a scheduler begins later."""
    played = Played(table("a", schedule=schedule, since=NOON - timedelta(seconds=1)))
    first = Scheduler(played, AtOnce())
    turns(first, played, 60)
    assert played.paths() == ["a"] or isinstance(schedule, OnUpdate)
    played.tables["a"] = replace(played.tables["a"], since=played.now)
    for scheduler in (first, Scheduler(played, AtOnce())):
        turns(scheduler, played, -3600)
        played.tables["a"] = replace(played.tables["a"], since=played.now + timedelta(hours=1))
        assert played.paths() == []
        for _ in range(2):
            played.versions["base"] += 1
            turns(scheduler, played, 61)
            assert played.paths() == ["a"]
            played.tables["a"] = replace(played.tables["a"], since=played.now + timedelta(hours=1))


def test_a_new_table_with_a_cron_schedule_waits_for_its_first_time_when_the_clock_is_set_back() -> None:
    played = Played(table("a", schedule=cron("*/5 * * * *", "UTC")))
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 60)
    turns(scheduler, played, -3600)
    assert played.paths() == []
    turns(scheduler, played, 300)
    assert played.paths() == ["a"]


def test_a_table_that_is_tried_again_does_not_wait_for_the_time_that_the_clock_had() -> None:
    played = Played(table("a"))
    played.resting["a"] = 1
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 0)
    assert played.paths() == []
    turns(scheduler, played, -3600)
    assert played.paths() == ["a"]


def test_tables_come_and_go() -> None:
    played = Played(table("a"))
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 0)
    assert played.paths() == ["a"]
    played.tables = {"b": table("b")}
    played.versions["b"] = 1
    played.broken = {"b"}
    turns(scheduler, played, 1)
    assert played.paths() == ["b"]
    played.tables = {}
    turns(scheduler, played, 10)
    assert [*scheduler._tried, *scheduler._failed, *scheduler._told, *scheduler._urgency] == [], "nothing is left of it in memory"


def test_two_schedulers_share_the_work() -> None:
    played = Played(table("a"), table("b", "a"))
    first, second = Scheduler(played, AtOnce()), Scheduler(played, AtOnce())
    turns(first, played, 0)
    turns(second, played, 0)
    assert played.paths() == ["a", "b"]
    turns(second, played, 10)  # the first is gone
    assert played.paths() == ["a", "b"]


def test_a_worker_that_breaks_down_counts_as_a_failure_of_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(table("a"), table("b", "a"))
    refresh = played.refresh

    def breaks(task: Task, attempt: int, stopping: Event) -> Refreshed | Failed:
        raise MemoryError

    monkeypatch.setattr(played, "refresh", breaks)
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 0)
    assert played.skips == [("b", "shop.a failed")]
    monkeypatch.setattr(played, "refresh", refresh)
    turns(scheduler, played, 10)
    assert played.paths() == ["a", "b"]


def test_looking_is_tried_again_ever_more_seldom_while_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(table("a"))
    observe, failed = played.observe, list[float]()

    def fails() -> Observation:
        failed.append((played.now - NOON).total_seconds())
        raise OSError("the catalog cannot be reached")

    monkeypatch.setattr(played, "observe", fails)
    scheduler = Scheduler(played, AtOnce())
    for _ in range(300):
        turns(scheduler, played, 1, count=1)
    assert failed == [1, 2, 4, 8, 16, 32, 64, 124, 184, 244]
    monkeypatch.setattr(played, "observe", observe)
    turns(scheduler, played, 60)
    assert played.paths() == ["a"]


def test_many_tables_with_deadlines_and_commits_of_their_own_do_not_keep_the_scheduler_looking() -> None:
    """Each of them had a look of its own, which costs as much as there are tables."""
    spread = [table(f"t{n}", schedule=duration("1m"), since=NOON - timedelta(seconds=n / 10)) for n in range(490)]
    following = [on_update(f"u{n}", f"s{n}") for n in range(10)]
    played = Played(*(replace(each, behind=False) for each in spread), *following)
    played.poll, scheduler = timedelta(hours=1), Scheduler(played, AtOnce())
    for turn in range(1200):
        played.versions[f"s{turn % 10}"] += 1
        turns(scheduler, played, 0.05, count=3)
    assert 100 < played.looks <= 121, "two in a second"
    oldest = min(played.tables[each.path].since or NOON for each in following)
    assert played.now - oldest <= timedelta(seconds=1 + 0.5 + 0.5), "the least time between refreshes, a commit, and a look"


def on_update(path: str, sources: str = "base", at_most: str | None = None) -> ScheduledTable:
    return table(path, sources, OnUpdate(at_most and duration(at_most)), NOON)  # type: ignore[arg-type]


def test_a_chain_on_update_follows_a_commit_and_not_the_clock() -> None:
    played = Played(on_update("c", "b"), on_update("b", "a"), on_update("a"))
    played.poll = timedelta(hours=1)
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 60)
    assert (played.paths(), played.looks) == ([], 1)
    played.versions["base"] += 1
    turns(scheduler, played, 0.1)
    assert [(task.path, task.vector.at) for task in played.refreshed] == [(path, played.now) for path in "abc"]
    played.paths()
    looks = played.looks
    turns(scheduler, played, 60, count=60)
    assert played.paths() == []
    assert played.looks <= looks + 1, "the chain's own commits are seen once"


def test_a_writer_that_never_rests_gets_one_refresh_for_each_debounce_and_starves_nobody() -> None:
    played = Played(
        on_update("a"), on_update("seldom", at_most="20s"), on_update("quiet", "other"), table("timed", "other", since=NOON)
    )
    played.poll, played.parallelism = timedelta(hours=1), 1
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 0)
    begun, begin = list[tuple[str, int]](), played.looks
    for tenth in range(1, 601):
        played.versions["base"] += 1
        if tenth == 300:
            played.versions["other"] += 1
        turns(scheduler, played, 0.1, count=3)
        begun += [(path, tenth) for path in played.paths()]
    times = {name: [tenth for path, tenth in begun if path == name] for name in ("a", "seldom", "quiet", "timed")}
    assert times["a"] == list(range(10, 601, 10))
    assert times["seldom"] == [200, 400, 600]
    assert times["quiet"] == [300]
    assert times["timed"] == list(range(100, 601, 100))
    assert played.looks - begin <= 2 * 60 + 6, "a commit within the debounce causes no look"


def test_a_commit_during_a_refresh_is_not_lost_though_a_look_saw_it() -> None:
    played = Played(on_update("slow"), table("other", "elsewhere", duration("2s"), NOON))
    played.poll = timedelta(hours=1)
    workers = OnDemand()
    scheduler = Scheduler(played, workers)
    played.versions["base"] += 1
    turns(scheduler, played, 1)
    assert workers.paths() == ["slow"]
    played.versions["base"] += 1
    turns(scheduler, played, 4)
    assert workers.paths() == ["slow", "other"], "there was a look meanwhile"
    workers.finish("other")
    workers.finish("slow")
    turns(scheduler, played, 0.1)
    turns(scheduler, played, 1)
    assert workers.paths()[0] == "slow"
    workers.finish("slow")
    assert played.read["slow", "base"] == 3


def test_only_the_sources_of_tables_that_can_be_refreshed_now_are_looked_at() -> None:
    played = Played(
        on_update("a"), on_update("later", "x", "10s"), table("timed", "y"), replace(on_update("off", "z"), suspended=True)
    )
    played.poll = timedelta(hours=1)
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 2)
    assert played.asked == ["base"]
    turns(scheduler, played, 8)
    assert played.asked == ["base", "x"]


def test_a_commit_does_not_shorten_the_pause_while_looking_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(on_update("a"))
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 5)
    failed = list[float]()

    def fails() -> Observation:
        failed.append((played.now - NOON).total_seconds())
        raise OSError("the catalog cannot be reached")

    monkeypatch.setattr(played, "observe", fails)
    played.versions["base"] += 1
    for _ in range(80):
        turns(scheduler, played, 0.1, count=1)
    assert len(failed) == 4, failed  # after pauses of 1, 2 and 4 seconds


@contextmanager
def started(played: Played) -> Iterator[Scheduler]:
    """Run a scheduler on threads and on the real clock."""
    played.in_real_time = True
    scheduler = Scheduler(played)
    assert not scheduler.running
    with scheduler.start():
        yield scheduler
    assert not scheduler.running


def eventually(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_the_thread_refreshes_by_the_deadline_until_it_is_stopped() -> None:
    played = Played(table("a", schedule=duration("1s")))
    with started(played) as scheduler:
        eventually(lambda: len(played.refreshed) == 3)
        assert scheduler.stop(timeout=20)
    times = [task.vector.at for task in played.refreshed]
    assert all(later - earlier >= timedelta(seconds=1) for earlier, later in pairwise(times))
    before = played.looks
    time.sleep(1.2)
    assert played.looks == before


def test_the_thread_sees_a_commit_long_before_its_next_poll() -> None:
    played = Played(on_update("a"))
    played.poll = timedelta(hours=1)
    with started(played):
        eventually(lambda: played.asked == ["base"])
        played.versions["base"] += 1
        committed = time.monotonic()
        eventually(lambda: played.paths() == ["a"])
        assert time.monotonic() - committed < 5, "a tenth of a second, and what a busy machine takes"


def test_the_thread_looks_at_once_when_somebody_of_its_process_asks() -> None:
    played = Played(table("a", schedule=Manual(), since=NOON))
    played.poll = timedelta(hours=1)
    with started(played):
        eventually(lambda: played.looks == 1)
        played.tables["a"] = replace(played.tables["a"], request=Request("r", NOON))
        look_now()
        eventually(lambda: played.paths() == ["a"])


def test_the_thread_tries_again_after_the_pause_and_not_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(table("a", schedule=duration("1h")))
    begun: list[float] = []

    def soon(task: Task, attempt: int, stopping: Event) -> Refreshed | Failed | Again:
        begun.append(time.monotonic())
        return Again(timedelta(seconds=0.2)) if attempt < 3 else Failed("it failed")

    sight = played.observe
    monkeypatch.setattr(played, "observe", lambda: replace(sight(), poll=timedelta(hours=1)))
    monkeypatch.setattr(played, "refresh", soon)
    with started(played):
        eventually(lambda: len(begun) == 3)
    assert all(later - earlier >= 0.2 for earlier, later in pairwise(begun))


@contextmanager
def refreshing(played: Played, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Scheduler, Event]]:
    """Run a scheduler until its first refresh has begun; the refresh ends when the event is set."""
    begun, may_end = Event(), Event()

    def slow(task: Task, attempt: int, stopping: Event) -> Refreshed | Failed:
        begun.set()
        may_end.wait(20)
        return Failed("stopped")

    monkeypatch.setattr(played, "refresh", slow)
    with started(played) as scheduler:
        begun.wait(20)
        yield scheduler, may_end


def test_stop_waits_for_a_refresh_and_cancels_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(table("a"))
    with refreshing(played, monkeypatch) as (scheduler, may_end):
        assert not scheduler.stop(timeout=0.1)
        assert set(played.cancelled) == {"a"}
        may_end.set()
        assert scheduler.stop(timeout=20)


def test_stop_ends_also_where_spark_is_stopped_first(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The error of the cancel was that of stop."""
    played = Played(table("a"))

    def gone(task: Task) -> None:
        raise AttributeError("'NoneType' object has no attribute 'sc'")

    monkeypatch.setattr(played, "cancel", gone)
    with refreshing(played, monkeypatch) as (scheduler, may_end):
        assert not scheduler.stop(timeout=0.1)
        may_end.set()
        assert scheduler.stop(timeout=20)
    assert "cannot be cancelled" in caplog.text


def test_a_job_that_begins_after_stop_has_cancelled_is_cancelled_too(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(table("a"))
    begun, planned, ended = Event(), Event(), Event()

    def slow(task: Task, attempt: int, stopping: Event) -> Refreshed | Failed:
        begun.set()
        planned.wait(20)  # Spark plans, and has no job that could be cancelled
        before = len(played.cancelled)
        eventually(lambda: len(played.cancelled) > before)  # the job, which would take an hour
        ended.set()
        return Failed("cancelled")

    monkeypatch.setattr(played, "refresh", slow)
    with started(played) as scheduler:
        assert begun.wait(20)
        assert not scheduler.stop(timeout=0.1)
        planned.set()
        assert ended.wait(20)
        assert scheduler.stop(timeout=20)
    cancels = len(played.cancelled)
    time.sleep(2 * CANCEL_AGAIN.total_seconds())
    assert len(played.cancelled) == cancels, "what has ended is left alone"


def test_stop_takes_no_longer_than_it_may_when_the_look_hangs_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(table("a"))
    begun, hanging, may_end = Event(), Event(), Event()

    def slow(task: Task, attempt: int, stopping: Event) -> Refreshed | Failed:
        begun.set()
        may_end.wait(20)
        return Failed("stopped")

    def observe() -> Observation:
        if begun.is_set():
            hanging.set()
            may_end.wait(20)
        return Played.observe(played)

    monkeypatch.setattr(played, "refresh", slow)
    monkeypatch.setattr(played, "observe", observe)
    with started(played) as scheduler:
        hanging.wait(20)
        began = time.monotonic()
        assert not scheduler.stop(timeout=0.6)
        assert time.monotonic() - began < 1.1  # one after the other, they would take 1.2
        may_end.set()


def test_the_thread_ends_with_spark() -> None:
    played = Played(table("a"))
    played.living = False
    ended = Scheduler(played).start()
    eventually(lambda: not ended.running)
    assert ended.stop(timeout=20)


def test_what_is_being_refreshed_can_be_asked() -> None:
    played, workers = Played(table("a"), table("b")), OnDemand()
    scheduler = Scheduler(played, workers)
    turns(scheduler, played, 0)
    assert sorted(task.group for task in scheduler.refreshing) == ["streamtable shop.a", "streamtable shop.b"]
    workers.finish("a")
    scheduler.turn(played.now)
    assert [task.name for task in scheduler.refreshing] == ["shop.b"]


def test_a_suspended_scheduler_begins_nothing_and_goes_on_after_a_resume() -> None:
    played = Played(table("b", "a"), table("a"), table("c", schedule=OnUpdate()))
    scheduler = Scheduler(played, AtOnce())
    played.suspended = True
    turns(scheduler, played, 0)
    turns(scheduler, played, 60)
    assert played.paths() == [] and played.skips == []
    played.suspended = False
    turns(scheduler, played, 1)
    assert sorted(played.paths()) == ["a", "b", "c"]


def test_what_runs_when_the_scheduler_is_suspended_ends_and_its_readers_wait_for_new_versions() -> None:
    played, workers = Played(table("b", "a"), table("a"), table("c")), OnDemand()
    played.resting = {"c": 1}
    scheduler = Scheduler(played, workers)
    turns(scheduler, played, 0)
    workers.finish("c")
    played.suspended = True
    turns(scheduler, played, 1)
    workers.finish("a")
    for _ in range(2):
        turns(scheduler, played, 60)
        assert workers.paths() == [], "neither the reader nor the table that rests begins"
    assert played.paths() == ["a"]
    played.suspended = False
    turns(scheduler, played, 1)
    assert sorted(workers.paths()) == ["a", "c"]
    workers.finish("a")
    turns(scheduler, played, 0)
    workers.finish("b")
    assert [task.vector.at for task in played.refreshed] == [played.now] * 2


def test_what_ran_when_the_scheduler_was_suspended_is_not_tried_again_before_it_resumes() -> None:
    played, workers = Played(table("a")), OnDemand()
    played.resting, played.poll = {"a": 1}, timedelta(minutes=1)
    scheduler = Scheduler(played, workers)
    turns(scheduler, played, 0)
    played.suspended = True
    turns(scheduler, played, 60)
    workers.finish("a")
    for _ in range(3):
        turns(scheduler, played, 11)
        assert workers.paths() == []
    played.suspended = False
    turns(scheduler, played, 60)
    assert workers.paths() == ["a"]


def test_a_failing_table_on_update_is_tried_again_after_pauses_that_double_and_not_at_the_next_poll() -> None:
    played = Played(on_update("b", "a"), on_update("a"))
    played.poll, played.broken = timedelta(hours=1), {"a"}
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 0)
    played.versions["base"] += 1
    for _ in range(400):
        turns(scheduler, played, 0.1, count=2)
    times = [seconds for path, _, seconds in played.attempts]
    assert {path for path, *_ in played.attempts} == {"a"}
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert len(pauses) >= 4 and all(2**n <= pause <= 2**n + 1.3 for n, pause in enumerate(pauses)), pauses
    played.broken.clear()
    for _ in range(40):
        turns(scheduler, played, 1)
    assert played.attempts[-1][0] == "b", "its reader follows"
    played.versions["base"] += 1
    turns(scheduler, played, 1.1)
    assert played.attempts[-2][0] == "a", "a success ends the pauses"


def test_the_pause_after_a_refresh_on_update_that_failed_late_is_as_long() -> None:
    played, workers = Played(on_update("a")), OnDemand()
    played.poll = timedelta(seconds=5)
    scheduler = Scheduler(played, workers)
    turns(scheduler, played, 0)
    for path in workers.paths():
        workers.finish(path)
    turns(scheduler, played, 0)
    played.broken = {"a"}
    played.versions["base"] += 1
    for pause in (1, 2, 4, 8, 16):
        waited = 0
        while not workers.paths():
            turns(scheduler, played, 1)
            waited += 1
        assert pause == 1 or waited >= pause // 2, "of the pause before"
        turns(scheduler, played, 30)
        workers.finish("a")
        turns(scheduler, played, 0)


def test_a_failing_table_with_a_duration_waits_for_its_next_time() -> None:
    played = Played(table("a", schedule=duration("1m")))
    played.poll, played.broken = timedelta(hours=1), {"a"}
    scheduler = Scheduler(played, AtOnce())
    for _ in range(59):
        turns(scheduler, played, 1)
    assert len(played.attempts) == 1


def test_a_refresh_knows_the_deadline_that_it_had_and_the_first_one_has_none() -> None:
    played = Played(table("a"))
    scheduler = Scheduler(played, AtOnce())
    turns(scheduler, played, 0)
    turns(scheduler, played, 25)
    assert [task.deadline for task in played.refreshed] == [None, NOON + timedelta(seconds=10)]
