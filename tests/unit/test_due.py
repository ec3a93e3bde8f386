"""What is due: deadlines of every kind of schedule, the order of the work, and what belongs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from streamtable.catalog.requests import Request
from streamtable.language.stream_table.schedule import Calculated, Manual, OnUpdate, Schedule, cron, duration
from streamtable.schedule.due import NEVER, ONCE, Plan, ScheduledTable, deadlines, graph_of, plan

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
MINUTE, HOUR = duration("1m"), duration("1h")
CALCULATED, MANUAL = Calculated(), Manual()


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def table(
    path: str,
    sources: str = "base",
    schedule: Schedule = MINUTE,
    since: datetime | None = NOON,
    suspended: bool = False,
    behind: bool = True,
) -> ScheduledTable:
    return ScheduledTable(path, f"shop.{path}", schedule, tuple(sources.split()), since, suspended, behind)


def tables(*them: ScheduledTable) -> dict[str, ScheduledTable]:
    return {each.path: each for each in them}


def deadline_of(path: str, *them: ScheduledTable) -> datetime:
    return deadlines(tables(*them), graph_of(them))[path]


def planned(seconds: float, *them: ScheduledTable, busy: Sequence[str] = ()) -> Plan:
    return plan(tables(*them), at(seconds), dict.fromkeys(busy, at(seconds)))


def order(found: Plan) -> list[str]:
    return [work.path for work in found.work]


def test_a_duration_counts_from_the_last_refresh() -> None:
    assert deadline_of("a", table("a")) == at(60)
    assert order(planned(59.9, table("a"))) == []
    assert order(planned(60, table("a"))) == ["a"]


def test_a_table_that_was_never_refreshed_comes_first() -> None:
    assert deadline_of("a", table("a", since=None)) == ONCE
    assert order(planned(90, table("b"), table("a", since=None, schedule=HOUR))) == ["a", "b"]


def test_cron_comes_at_its_next_time_once_however_many_were_missed() -> None:
    nightly = table("a", schedule=cron("0 2 * * *", "Europe/Berlin"), since=NOON - timedelta(days=10))
    found = planned(0, nightly)
    assert [work.deadline for work in found.work] == [datetime(2026, 5, 23, 0, tzinfo=timezone.utc)]
    refreshed = table("a", schedule=nightly.schedule)
    assert order(planned(0, refreshed)) == []
    assert planned(0, refreshed).wake == datetime(2026, 6, 2, 0, tzinfo=timezone.utc)


def test_cron_without_a_zone_is_read_in_the_table_s_own_and_so_it_is_for_the_tables_it_reads() -> None:
    tokyo = ScheduledTable("b", "b", cron("0 6 * * *"), ("a",), NOON, zone=ZoneInfo("Asia/Tokyo"))
    six = datetime(2026, 6, 1, 21, tzinfo=timezone.utc)
    assert deadline_of("b", tokyo) == six
    assert deadline_of("a", table("a", schedule=CALCULATED), tokyo) == six


@pytest.mark.parametrize("schedule", [duration("1d"), cron("0 2 * * *", "UTC")])
def test_a_resumed_table_is_due_at_once_and_after_a_try_by_its_schedule_again(schedule: Schedule) -> None:
    resumed = replace(table("a", schedule=schedule), resumed=at(60))
    assert deadline_of("a", resumed) == at(60)
    tried = replace(resumed, since=at(61))
    assert deadline_of("a", tried) == deadline_of("a", replace(tried, resumed=None)) > at(3600)


def test_resume_asks_for_no_table_that_no_schedule_asks_for() -> None:
    for schedule in (MANUAL, CALCULATED):
        assert deadline_of("a", replace(table("a", schedule=schedule), resumed=at(60))) == NEVER
    calculated = replace(table("a", schedule=CALCULATED), resumed=at(60))
    assert deadline_of("a", calculated, table("b", "a", HOUR)) == at(60)


def test_manual_and_suspended_tables_are_never_due() -> None:
    for never in (table("a", schedule=MANUAL), table("a", suspended=True), table("a", since=None, schedule=MANUAL)):
        assert deadline_of("a", never) == NEVER
        assert planned(1e6, never) == Plan((), (), {}, NEVER)


def test_calculated_is_the_tightest_of_the_readers_through_calculated_ones() -> None:
    chain = (table("a", schedule=CALCULATED), table("b", "a", CALCULATED))
    assert deadline_of("a", *chain) == NEVER
    assert deadline_of("a", *chain, table("c", "b", HOUR)) == at(3600)
    assert deadline_of("a", *chain, table("c", "b", HOUR), table("d", "a", MINUTE)) == at(60)
    assert deadline_of("b", *chain, table("c", "b", HOUR), table("d", "a", MINUTE)) == at(3600)
    assert deadline_of("a", *chain, table("c", "b", HOUR), table("d", "a", cron("30 12 * * *", "UTC"))) == at(1800)


def test_calculated_does_not_look_past_a_reader_with_a_schedule_of_its_own() -> None:
    a = table("a", schedule=CALCULATED)
    assert deadline_of("a", a, table("b", "a", HOUR), table("c", "b", MINUTE)) == at(3600)
    assert deadline_of("a", a, table("b", "a", MANUAL), table("c", "b", MINUTE)) == NEVER
    assert deadline_of("a", a, table("b", "a", MINUTE, suspended=True)) == NEVER


def test_calculated_tables_come_along_with_a_reader() -> None:
    a, b = table("a", schedule=CALCULATED, since=at(50)), table("b", "a", CALCULATED, since=at(50))
    assert order(planned(60, a, b, table("c", "b"))) == ["a", "b", "c"]


def test_other_sources_keep_their_own_schedule() -> None:
    assert order(planned(60, table("a", schedule=HOUR), table("m", schedule=MANUAL), table("c", "a m"))) == ["c"]


def test_the_earliest_deadline_is_first_but_what_is_read_comes_before() -> None:
    late, later, on_time = (table(name, since=at(since)) for name, since in (("late", -90), ("later", -30), ("on_time", 0)))
    assert order(planned(60, on_time, later, late)) == ["late", "later", "on_time"]
    reader = table("reader", "on_time", since=at(-99))
    assert order(planned(60, late, later, on_time, reader)) == ["on_time", "reader", "late", "later"]
    through_busy = table("a", since=at(-99)), table("b", "a"), table("c", "b", since=None)
    assert order(planned(60, *through_busy, busy=["b"])) == ["a", "c"]


def test_what_did_not_change_is_no_work_unless_a_source_is_about_to_change() -> None:
    chain = (table("a"), table("b", "a", behind=False), table("c", behind=False), table("d", "c", behind=False))
    found = planned(60, *chain)
    assert (order(found), found.current) == (["a", "b"], ("c", "d"))


def test_the_readers_of_a_suspended_table_are_blocked_and_name_it() -> None:
    chain = (table("a", suspended=True), table("b", "a"), table("c", "b"), table("other"))
    found = planned(60, *chain)
    assert (order(found), found.blocked) == (["other"], {"b": "shop.a", "c": "shop.a"})
    behind_manual = (table("a", suspended=True), table("m", "a", MANUAL), table("c", "m"))
    assert order(planned(60, *behind_manual)) == ["c"]


ON_UPDATE, SELDOM = OnUpdate(), OnUpdate(duration("10s"))


def moved(each: ScheduledTable) -> ScheduledTable:
    return replace(each, behind=True, moved=True)


def still(path: str, sources: str = "base", schedule: Schedule = ON_UPDATE) -> ScheduledTable:
    return table(path, sources, schedule, behind=False)


def test_on_update_is_due_when_a_source_moved_and_never_before_its_debounce() -> None:
    assert planned(3600, still("a")) == Plan((), (), {}, NEVER, {"a": at(1)})
    assert deadline_of("a", moved(still("a"))) == at(1)
    assert deadline_of("a", moved(still("a", schedule=SELDOM))) == at(10)
    assert planned(9, moved(still("a", schedule=SELDOM))).wake == at(10)
    assert order(planned(10, moved(still("a", schedule=SELDOM)))) == ["a"]
    assert deadline_of("a", table("a", schedule=ON_UPDATE, since=None)) == ONCE
    assert deadline_of("a", replace(still("a", schedule=SELDOM), resumed=at(2))) == at(2)


def test_the_scheduler_wakes_for_the_next_time_of_what_it_refreshes_now() -> None:
    every_2s = table("a", schedule=duration("2s"))
    assert order(planned(60, every_2s)) == ["a"]
    assert planned(60, every_2s, table("far", schedule=HOUR)).wake == at(62)
    assert planned(60, table("a", schedule=duration("2s"), behind=False)).wake == at(62), "nothing changed: it counts as refreshed"
    chain = (table("a", schedule=CALCULATED), table("b", "a", duration("5s")))
    assert planned(60, *chain).wake == at(65)
    assert planned(60, table("a", schedule=duration("2s"), suspended=True), table("b", "a", duration("2s"))).wake == NEVER


def test_a_table_whose_refresh_takes_longer_than_its_duration_is_looked_at_when_that_ends() -> None:
    slow = {"a": table("a", schedule=duration("2s"))}
    early, late = plan(slow, at(61), {"a": at(60)}), plan(slow, at(62), {"a": at(60)})
    assert not early.work and (early.wake, early.waiting) == (at(62), {})
    assert not late.work and (late.wake, late.waiting) == (NEVER, {"a": frozenset("a")})
    asked = {"a": replace(table("a", schedule=MANUAL), request=Request("again", at(61)))}
    assert plan(asked, at(61), {"a": at(60)}).waiting == {"a": {"a"}}, "asked for again while it is refreshed"


def test_on_update_does_not_follow_what_is_no_commit_of_a_source() -> None:
    """The clock, a file or a foreign write may leave the contents behind; a refresh each second would find that no sooner."""
    assert planned(3600, table("a", schedule=ON_UPDATE, behind=True)) == Plan((), (), {}, NEVER, {"a": at(1)})


def test_a_chain_on_update_follows_in_one_cycle() -> None:
    chain = (moved(still("a")), still("b", "a"), still("c", "b"), still("other", "elsewhere"))
    assert order(planned(1, *chain)) == ["a", "b", "c"]
    calculated = (moved(table("a", schedule=CALCULATED)), still("b", "a", schedule=CALCULATED), still("c", "b"))
    assert order(planned(1, *calculated)) == ["a", "b", "c"]
    assert deadline_of("a", still("a", schedule=CALCULATED), still("b", "a")) == NEVER


def test_a_reader_on_update_follows_when_its_source_is_refreshed_and_its_debounce_is_over() -> None:
    hourly = moved(table("a", schedule=HOUR))
    assert deadline_of("b", hourly, still("b", "a")) == at(3600)
    assert order(planned(3600, hourly, still("b", "a"))) == ["a", "b"]
    assert deadline_of("b", moved(still("a")), still("b", "a", schedule=SELDOM)) == at(10)
    assert order(planned(1, moved(still("a")), still("b", "a", schedule=SELDOM))) == ["a"]
    for never in (moved(table("a", schedule=MANUAL)), replace(hourly, suspended=True), still("a", schedule=MANUAL)):
        assert deadline_of("b", never, still("b", "a")) == NEVER


def test_a_reader_on_update_of_a_busy_table_waits_and_does_not_count_as_refreshed() -> None:
    found = planned(60, moved(still("a")), still("b", "a", schedule=SELDOM), busy=["a"])
    assert (found.work, found.current) == ((), ())


def test_what_follows_commits_is_watched_from_the_end_of_its_debounce_on() -> None:
    chain = (
        table("a", schedule=CALCULATED, behind=False),
        still("b", "a", schedule=SELDOM),
        table("c"),
        table("m", schedule=MANUAL),
    )
    assert planned(5, *chain).watched == {"a": at(10), "b": at(10)}
    assert planned(50, moved(still("a"))).watched == {"a": at(51)}, "from this refresh on, not from the one before"
    never = (
        table("a", schedule=ON_UPDATE, suspended=True),
        still("b", "a"),
        table("c", schedule=ON_UPDATE, since=None, suspended=True),
    )
    assert planned(5, *never).watched == {}


def test_the_branches_of_a_diamond_come_along_with_a_tip_on_update() -> None:
    tip = (moved(table("a", schedule=HOUR)), moved(table("b", schedule=HOUR)), moved(still("j", "a b base")))
    assert order(planned(1, *tip)) == ["a", "b", "j"]


DIAMOND = (table("a"), table("b", schedule=HOUR), table("j", "a b"))


def test_the_branches_of_a_diamond_are_refreshed_together() -> None:
    assert order(planned(60, *DIAMOND)) == ["a", "b", "j"]
    assert order(planned(60, *DIAMOND[:2])) == ["a"]


def test_a_branch_that_is_busy_makes_the_diamond_wait() -> None:
    assert order(planned(60, *DIAMOND, busy=["b"])) == ["a"]
    assert order(planned(60, *DIAMOND, busy=["a", "j"])) == []
    assert order(planned(60, table("a"), table("b", "a"), busy=["a"])) == ["b"]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("a:base j:a", ""),
        ("a:base j:a,base", "a"),
        ("a:base b:base j:a,b", "a b"),
        ("a:base b:other j:a,b", ""),
        ("s:base a:s b:s j:a,b", "a b"),  # all ways pass through s, whose version decides
        ("s:base a:s b:s,base j:a,b", "s a b"),
        ("s:base a:s b:s d:a,b j:d", ""),  # a diamond of d's own
        ("s:base a:s b:s d:a,b j:d,s", "a b d"),
        ("a:base b:base m:a j:m,b,a", "m a b"),
    ],
)
def test_branches_lie_between_a_table_and_what_it_reaches_by_several_ways(shape: str, expected: str) -> None:
    parsed = [part.partition(":") for part in shape.split()]
    graph = graph_of([table(path, sources.replace(",", " ")) for path, _, sources in parsed])
    assert graph.branches("j") == set(expected.split())


def test_a_manual_table_is_a_base_whose_owner_decides() -> None:
    graph = graph_of([table("a"), table("m", schedule=MANUAL), table("j", "a m")])
    assert graph.branches("j") == set()
