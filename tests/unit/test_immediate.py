"""SCHEDULE IMMEDIATE: which tables a write refreshes, and what becomes of those that fail. Spark is played."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from tests.unit.test_due import at, planned, table
from tests.unit.test_due import moved as ahead

from streamtable.catalog import immediate as mark
from streamtable.catalog.definition import SUSPENDED
from streamtable.catalog.entries import Entry
from streamtable.catalog.graph import read_by
from streamtable.delta.tables import Version
from streamtable.errors import ConcurrentRefresh, RefreshError, StatementCancelled, StorageFailed
from streamtable.language.names import Name
from streamtable.language.parse import parse
from streamtable.language.stream_table.schedule import Calculated, Immediate, Manual, OnUpdate, Schedule, duration
from streamtable.refresh.choose import Action
from streamtable.refresh.frontier import Vector
from streamtable.refresh.records import Cause, Initiator, Record
from streamtable.refresh.run import Outcome
from streamtable.schedule import immediate
from streamtable.schedule.cancelling import TimeLimit
from streamtable.schedule.cycle import Refreshed, Task
from streamtable.schedule.graph import Graph, branches
from streamtable.schedule.immediate import follow, moving
from streamtable.settings.session import IMMEDIATE_TIMEOUT
from streamtable.statements import dispatch

NOW, HOURLY, MANUAL = Immediate(), duration("1h"), Manual()


def entry(path: str, sources: str, schedule: Schedule = NOW, status: str = "ACTIVE") -> tuple[str, Entry]:
    statement = SimpleNamespace(schedule=schedule)
    definition = SimpleNamespace(
        name=f"shop.{path}", sources=dict.fromkeys(sources.split(), ""), status=status, statement=statement
    )
    return path, cast("Entry", SimpleNamespace(path=path, definition=definition))


def moved(*tables: tuple[str, Entry], written: str = "base") -> list[str]:
    found = dict(tables)
    return list(moving(found, read_by(found.values()), written.split()))


def test_a_write_refreshes_the_tables_immediate_above_it_and_what_lies_between_whatever_its_schedule() -> None:
    chain = (entry("c", "b"), entry("b", "a", MANUAL), entry("a", "base", HOURLY))
    beside = (entry("other", "base", OnUpdate()), entry("far", "elsewhere"))
    assert moved(*chain, *beside) == ["a", "b", "c"]
    assert moved(*chain, *beside, written="elsewhere nothing") == ["far"]
    assert moved(entry("a", "base"), entry("b", "a", HOURLY)) == ["a"], "what reads it has a schedule of its own"
    assert moved(entry("a", "base", HOURLY)) == []


def test_all_branches_of_a_diamond_come_along_whichever_of_them_the_write_is_below() -> None:
    diamond = (entry("a", "base", HOURLY), entry("b", "base extra", HOURLY), entry("j", "a b"))
    assert moved(*diamond, written="extra") == ["a", "b", "j"]
    assert moved(entry("a", "base", HOURLY), entry("j", "a extra"), written="extra") == ["j"], "no diamond: it is read as it is"


def test_a_table_that_needs_a_suspended_one_keeps_what_it_has_and_the_others_do_not() -> None:
    assert moved(entry("a", "base", HOURLY, SUSPENDED), entry("b", "a"), entry("c", "base")) == ["c"]
    assert moved(entry("a", "base", status=SUSPENDED)) == []
    assert moved(entry("a", "elsewhere", HOURLY, SUSPENDED), entry("b", "a base")) == ["b"]


def test_branches_are_looked_for_once_for_each_table_however_many_are_immediate(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def counted(graph: Graph, path: str) -> frozenset[str]:
        asked.append(path)
        return branches(graph, path)

    monkeypatch.setattr("streamtable.schedule.graph.branches", counted)
    ladder = (entry("t0", "base"), *(entry(f"t{n}", f"t{n - 1} base") for n in range(1, 20)))
    assert moved(*ladder) == [path for path, _ in ladder]
    assert len(asked) == len(ladder), "each pair of tables was looked at, and fifty tables took two seconds of each write"


def test_a_scheduler_takes_it_as_on_update_and_does_not_hurry() -> None:
    assert [work.path for work in planned(60, ahead(table("a", schedule=NOW))).work] == ["a"]
    assert planned(60, table("a", schedule=NOW)).work == ()
    assert planned(60, table("a", schedule=NOW, behind=False)).watched == {}
    assert planned(60, table("a", schedule=OnUpdate(), behind=False)).watched == {"a": at(1)}
    assert planned(60, table("a", schedule=Calculated(), behind=False), table("b", "a", NOW, behind=False)).watched == {}


class Jobs:
    """Spark's jobs: the tags of this thread, and which of them were cancelled."""

    def __init__(self, on_cancel: Callable[[], object] = lambda: None) -> None:
        self.tags = set[str]()
        self.cancelled: list[str] = []
        self._on_cancel = on_cancel

    def addJobTag(self, tag: str) -> None:  # noqa: N802  (Spark's spelling)
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        assert tag in self.tags, "what comes after the refresh is cancelled as well"
        self.cancelled.append(tag)
        self._on_cancel()


class Played:
    """Tables whose refreshes end as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *tables: tuple[str, Entry]) -> None:
        self.tables, self.ends = dict(tables), dict[str, list[Exception | Refreshed]]()
        self.hangs, self.ended = set[str](), Event()
        self.jobs = Jobs(self.ended.set)
        self.refreshed: list[str] = []
        self.failed: list[tuple[str, Record]] = []
        self.skipped: list[tuple[str, Record]] = []
        self.lost = dict[str, tuple[Entry, str]]()
        monkeypatch.setattr(immediate, "index", lambda _: SimpleNamespace(poll=lambda: self.tables, lost=self.lost))
        monkeypatch.setattr(immediate, "load", lambda _, name: self.tables[name.parts[-1]])
        monkeypatch.setattr(immediate, "carry_out", self.carry_out)
        monkeypatch.setattr(immediate, "write", lambda _, path, record: self.skipped.append((path, record)))
        monkeypatch.setattr(immediate, "write_failure", lambda _, path, error, record, most: self.failed.append((path, record)))
        monkeypatch.setattr(Vector, "read", lambda _, paths: Vector({path: Version("id", 1) for path in paths}, at(0)))
        monkeypatch.setattr("streamtable.refresh.records.PATIENCE.wait", lambda *_: 0)

    def carry_out(self, spark: SparkSession, task: Task, cause: Cause) -> tuple[None, Refreshed]:
        assert cause.initiator is Initiator.IMMEDIATE
        self.refreshed.append(task.path)
        if task.path in self.hangs:
            assert self.ended.wait(10), "nobody cancels it"
            raise StatementCancelled("cancelled")
        end = (self.ends.get(task.path) or [Refreshed(Version("id", 2), task.vector.versions)]).pop(0)
        if isinstance(end, Exception):
            raise end
        return None, end

    def create(self, path: str) -> list[str]:
        return immediate.follow_fill(self.spark(), Name(("shop", path)))

    def write(self, *places: str, timeout: str | None = None) -> list[str]:
        return follow(self.spark(timeout), places)

    def spark(self, timeout: str | None = None) -> Any:
        conf = SimpleNamespace(get=lambda key, _: timeout if key == IMMEDIATE_TIMEOUT.key else None)
        return SimpleNamespace(conf=conf, sparkContext=self.jobs)


JAVA = cast("Any", SimpleNamespace(_target_id="o1"))
CHAIN = (entry("a", "base"), entry("b", "a"), entry("c", "base"))


def test_a_table_that_fails_is_told_and_recorded_and_holds_up_only_its_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)
    played.ends["a"] = [RefreshError("overflow")]
    told = played.write("base")
    assert told == ["the refresh of shop.a failed: overflow", "shop.b was not refreshed: shop.a failed"]
    assert sorted(played.refreshed) == ["a", "c"]
    [(path, record)], [(reader, skip)] = played.failed, played.skipped
    assert (path, record.action, record.initiated_by) == ("a", Action.FAILED, "IMMEDIATE")
    assert (reader, skip.action, skip.initiated_by) == ("b", Action.SKIPPED, "IMMEDIATE")


def test_a_create_refreshed_all_tables_immediate_that_read_what_its_own_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)
    played.ends["a"] = [RefreshError("overflow")]
    assert played.create("c") == []
    assert played.refreshed == ["c"], "a failure of another table counts towards its suspension, and is not told to its owner"
    assert played.failed == []


@pytest.mark.parametrize(("action", "followed"), [(Action.NO_DATA, []), (Action.REINITIALIZE, [Name(("a",))])])
def test_create_if_not_exists_refreshed_a_table_that_was_there(
    action: Action, followed: list[Name], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Name]()

    def follow_fill(_: object, name: Name) -> list[str]:
        asked.append(name)
        return []

    monkeypatch.setattr(dispatch, "create", lambda *of: Outcome("shop.a", action, "so it is", 0, 0, 0, 1))
    monkeypatch.setattr(dispatch, "follow_fill", follow_fill)
    statement = cast("Any", parse("CREATE STREAM TABLE IF NOT EXISTS a SCHEDULE IMMEDIATE AS SELECT 1 AS one"))
    assert dispatch._created(cast("Any", None), statement).reason == "so it is"
    assert [each.parts for each in asked] == [each.parts for each in followed]


@pytest.mark.parametrize("error", [StatementCancelled("cancelled"), StorageFailed("the storage failed"), Py4JJavaError("x", JAVA)])
def test_a_create_failed_after_its_table_was_there(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)

    def fails(*of: object) -> Entry:
        raise error

    monkeypatch.setattr(immediate, "load", fails)
    monkeypatch.setattr(immediate, "text_of", lambda error: type(error).__name__)
    assert played.create("c") == [f"what was written meanwhile may not be in it: {type(error).__name__}"]
    assert played.refreshed == []


def test_what_another_session_refreshed_meanwhile_is_refreshed_again_until_it_has_the_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played(monkeypatch, *CHAIN)
    before = Refreshed(Version("id", 1), {}, skipped=True)
    done = Refreshed(Version("id", 2), {"base": Version("id", 1)})
    played.ends["a"] = [ConcurrentRefresh("first"), before, done]
    assert played.write("base") == []
    assert played.refreshed.count("a") == 3 and "b" in played.refreshed
    assert played.failed == played.skipped == []


def test_a_session_that_always_loses_tells_so_and_a_failed_table_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)
    played.ends["a"] = [RefreshError("overflow")]
    played.ends["c"] = [ConcurrentRefresh("another was first")] * 20
    told = played.write("base")
    assert told[-1] == "another session refreshed shop.c meanwhile, or what they read"
    assert "the refresh of shop.a failed: overflow" in told
    assert played.refreshed.count("a") == 1 == len(played.failed)
    assert played.refreshed.count("c") == 10


def test_a_table_that_always_conflicts_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)
    played.ends["a"] = [ConcurrentRefresh("another was first")] * 20
    assert played.write("base") == ["another session refreshed shop.a meanwhile, or what they read"]
    assert "c" in played.refreshed and "b" not in played.refreshed


def test_a_table_that_cannot_be_read_is_told_with_those_above_it_and_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    apart = (entry("far", "elsewhere"), entry("hourly", "base", HOURLY))
    played = Played(monkeypatch, *CHAIN, *apart)
    for path in ("a", "far", "hourly"):
        played.lost[path] = (played.tables.pop(path), "Access denied")
    told = ["shop.a was not refreshed, because it cannot be read: Access denied", "shop.b was not refreshed: shop.a cannot be read"]
    assert played.write("base") == told
    assert played.refreshed == ["c"]
    assert played.failed == played.skipped == [], "nobody can write into a log that he cannot read"


def test_who_cancels_counts_as_no_failure_of_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)
    played.ends["a"] = [StatementCancelled("cancelled")]
    with pytest.raises(StatementCancelled):
        played.write("base")
    assert played.failed == []


def test_who_cancels_between_two_refreshes_counts_as_no_failure_either(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)
    played.ends["a"] = [Py4JJavaError("interrupted", JAVA)]
    monkeypatch.setattr(immediate, "cancelled", lambda error: isinstance(error, Py4JJavaError))
    with pytest.raises(StatementCancelled):
        played.write("base")
    assert played.refreshed[-1] == "a" and played.failed == []


def test_a_refresh_that_hangs_keeps_no_writer_waiting_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = (entry("a", "base"), entry("b", "a"), entry("c", "b"))
    played = Played(monkeypatch, *chain)
    played.hangs.add("b")
    told = played.write("base", timeout="1")
    assert played.refreshed == ["a", "b"] and played.failed == []
    [(path, line)] = played.skipped
    later = "A scheduler refreshes it at its next look, or the next write does; REFRESH STREAM TABLE shop.{} does it at once"
    waits = "a write waits 1 s at most (spark.streamtable.immediate.timeoutSeconds)."
    assert told == [
        f"the refresh of shop.b was stopped: {waits} {later.format('b')}",
        f"shop.c was not refreshed: {waits} {later.format('c')}",
    ]
    assert (path, line.action, line.initiated_by) == ("b", Action.SKIPPED, "IMMEDIATE")
    assert line.reason == f"{waits} {later.format('b')}"
    assert played.jobs.cancelled and played.jobs.tags == set()


def test_a_table_for_which_no_time_is_left_is_told_and_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)
    played.hangs.add("a")
    told = played.write("base", timeout="0.05")
    assert played.refreshed[-1] == "a" and "b" not in played.refreshed
    assert [(path, line.action) for path, line in played.skipped] == [("a", Action.SKIPPED)], "who writes waits for one line"
    assert [text.partition(": ")[0] for text in told][:2] == ["the refresh of shop.a was stopped", "shop.b was not refreshed"]
    if "c" not in played.refreshed:
        assert told[2].startswith("shop.c was not refreshed: a write waits 0.05 s at most")


def test_who_loses_to_another_session_tries_no_longer_than_a_write_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, *CHAIN)
    played.ends["a"] = [ConcurrentRefresh("another was first")] * 10**5
    monkeypatch.setattr("streamtable.refresh.records.PATIENCE.stop", lambda tried: tried.attempt_number == 50_000)
    told = played.write("base", timeout="0.02")
    assert any(text.startswith("shop.a was not refreshed: a write waits 0.02 s at most") for text in told)


def test_each_job_that_begins_after_the_time_is_cancelled_and_none_before_it() -> None:
    cancelled_twice, times = Event(), list[str]()

    def on_cancel() -> None:
        times.append("")
        if len(times) == 2:
            cancelled_twice.set()

    jobs: Any = Jobs(on_cancel)
    with TimeLimit(jobs, 0.01).held():
        assert cancelled_twice.wait(10)
    assert len(set(jobs.cancelled)) == 1 and jobs.tags == set()
    in_time: Any = Jobs()
    limit = TimeLimit(in_time, 60)
    with limit.held():
        assert len(in_time.tags) == 1
    assert not limit.over() and in_time.tags == set() and in_time.cancelled == []


def test_a_spark_that_is_stopped_beyond_the_time_ends_the_write_and_no_thread_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tried = Event()

    def gone() -> None:
        tried.set()
        raise AttributeError("'NoneType' object has no attribute 'sc'")

    jobs: Any = Jobs(gone)
    with TimeLimit(jobs, 0.01).held():
        assert tried.wait(10)
    assert "cannot be cancelled" in caplog.text


def test_a_write_below_nothing_immediate_looks_at_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, entry("a", "base", HOURLY))
    monkeypatch.delattr(Vector, "read")
    assert played.write("base") == played.refreshed == []


def test_the_catalog_is_marked_once_and_for_no_other_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    properties, written = dict[str, str](), list[str]()

    def share(_: object, key: str, text: str) -> None:
        properties[key] = text
        written.append(key)

    monkeypatch.setattr(mark, "shared", lambda _, key: properties.get(key))
    monkeypatch.setattr(mark, "share", share)
    spark: Any = None
    for schedule in (OnUpdate(), MANUAL, HOURLY):
        mark.announce(spark, schedule)
    assert properties == {}
    for _ in range(2):
        mark.announce(spark, NOW)
    assert written == ["streamtable.immediate"]
    properties["streamtable.immediate"] = "false"
    mark.announce(spark, NOW)
    assert properties == {"streamtable.immediate": "true"}


@pytest.mark.parametrize("is_cancel", [False, True])
def test_a_cancel_while_a_refresh_sets_the_mark_again_did_not_end_the_refresh(
    is_cancel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = Py4JJavaError("x", JAVA)

    def share(*_: object) -> None:
        raise error

    monkeypatch.setattr(mark, "shared", lambda *_: None)
    monkeypatch.setattr(mark, "share", share)
    monkeypatch.setattr(mark, "cancelled", lambda _: is_cancel)
    with pytest.raises(Py4JJavaError) if is_cancel else nullcontext():
        mark.announce_again(cast("Any", None), NOW)
