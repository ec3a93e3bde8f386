"""What the scheduler's engine does when a refresh fails: tries again, counts, suspends. Spark is played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.jvm import Raised, java

from streamtable.algebra.sources import CLOCK
from streamtable.catalog.definition import ACTIVE, SUSPENDED, Definition, Failure
from streamtable.catalog.entries import Entry
from streamtable.delta.tables import TableState, Version
from streamtable.errors import ConcurrentRefresh, RefreshError, SourceUnavailable, StreamTableNotFound, StreamTableSuspended
from streamtable.language.names import Name
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.refresh.choose import Action
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.history import Line
from streamtable.refresh.records import Cause, Initiator, Record
from streamtable.schedule.cycle import Refreshed, Task
from streamtable.schedule.engine import SparkEngine, table_of
from streamtable.schedule.failures import LONGEST_BACKOFF
from streamtable.schedule.interface import Again, Failed

STATEMENT = parse("CREATE STREAM TABLE shop.a SCHEDULE '1m' AS SELECT 1 AS x")
assert isinstance(STATEMENT, CreateStreamTable)
DEFINITION = Definition(STATEMENT, "id", ("spark_catalog",), {}, {})
TASK = Task("/a", "shop.a", Vector({}, datetime(2026, 6, 1, tzinfo=timezone.utc)), joins=False)
DONE = Refreshed(Version("id", 2), {})
CONFLICT = ConcurrentRefresh("another commit came first")
GONE = SourceUnavailable("the source is gone")
TROUBLE = RefreshError("the storage does not answer")
TROUBLE.__cause__ = Raised(java("java.io.IOException"))


class Played:
    """A table and engines whose refreshes end as told; `written` is what came into its history, with why it was suspended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: str) -> None:
        self.ends: list[Exception | Refreshed] = []
        self.written: list[tuple[Record, Failure | None]] = []
        self.pauses: list[float] = []
        self.definition = DEFINITION
        self.groups: list[str] = []
        self.stopping = Event()
        monkeypatch.setattr("streamtable.schedule.engine.carry_out", self._carry_out)
        monkeypatch.setattr("streamtable.schedule.failures.find_at", lambda *_: self._entry())
        monkeypatch.setattr("streamtable.schedule.failures.history", lambda *_: self._history())
        monkeypatch.setattr("streamtable.schedule.failures.annotate", self._annotate)
        keys = {f"spark.streamtable.scheduler.{key}": value for key, value in settings.items()}
        self.tags: list[str] = []
        self.cancelled: list[str] = []
        context = SimpleNamespace(
            setJobGroup=lambda group, *_, **__: self.groups.append(group),
            addJobTag=self.tags.append,
            removeJobTag=self.tags.remove,
            cancelJobsWithTag=self.cancelled.append,
        )
        self._spark: Any = SimpleNamespace(conf=SimpleNamespace(get=keys.get), sparkContext=context)
        self.start_again()

    def start_again(self) -> None:
        """Go on with the engine of another process."""
        self.engine = SparkEngine(self._spark)

    def resume(self) -> None:
        """Do what the statement does, before anybody looks."""
        self.definition = self.definition.resumed_by(len(self.written), TASK.vector.at)

    def _carry_out(self, spark: object, task: Task, cause: Cause, full: bool) -> tuple[None, Refreshed]:
        assert (cause, full) == (Cause(Initiator.SCHEDULER), False)
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        self.written.append((Record(Action.DIFFERENTIAL, "1 of 1 sources changed", 0), None))
        return None, end

    def _entry(self) -> Entry:
        return Entry(self.definition, TableState("/a", "id", len(self.written), {}, "", (), None), ("c", "d", "a"))

    def _history(self) -> list[Line]:
        lines = enumerate((record for record, _ in self.written), start=1)
        return [Line(TASK.name, version, TASK.vector.at, record) for version, record in lines][::-1]

    def _annotate(self, spark: object, entry: Entry, record: Record, properties: Mapping[str, str] | None) -> None:
        if properties is not None:
            definition = Definition.of({key: value for key, value in properties.items() if value is not None})
            assert definition is not None
            self.definition = definition
        self.written.append((record, self.definition.error if properties else None))

    @property
    def failures(self) -> list[int | None]:
        """Return for each failure in the history how many in a row suspended the table, if it did."""
        return [by.failures if by else None for record, by in self.written if record.action is Action.FAILED]

    def refresh(self, *ends: Exception | Refreshed) -> Any:
        """Refresh once, and insist that it was tried as often as there are ends."""
        self.ends.extend(ends)
        self.pauses.clear()
        attempts = count(1)
        while isinstance(found := self.engine.refresh(TASK, next(attempts), self.stopping), Again):
            self.pauses.append(found.pause.total_seconds())
        assert self.ends == []
        return found


@pytest.mark.parametrize("exact", [True, False], ids=["by versions", "by the clock"])
def test_a_table_moved_if_a_source_has_another_version_and_not_if_time_went_on(exact: bool) -> None:
    read = {"/s": Version("id", 1), **({} if exact else {CLOCK.path: Version(CLOCK.path, 1)})}
    frontier = Frontier(read, {}, base=4, number=2, fingerprint="0123456789abcdef", action="FULL", exact=exact, at=TASK.vector.at)
    definition = replace(DEFINITION, sources={"/s": "c.d.s"})
    entry = Entry(definition, TableState("/a", "id", 5, {}, "", (), frontier.to_json()), ("c", "d", "a"))

    def seen(number: int, table_id: str = "id") -> tuple[bool, bool]:
        versions = {"/a": Version("id", 5), "/s": Version(table_id, number)}
        table = table_of(entry, Vector(versions, TASK.vector.at))
        return table.behind, table.moved

    assert seen(1) == (not exact, False)
    assert seen(2) == seen(1, "another") == (True, True)
    assert not table_of(replace(entry, state=replace(entry.state, frontier=None)), Vector({}, TASK.vector.at)).moved


class Looks:
    """Looks at the tables a and b, which read s, five seconds after one another; all are at version 5 at first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
        self.place, self.clock = place, 1000.0
        self.versions = {f"{place}/{name}": 5 for name in "abs"}
        self.asked = list[str]()
        """The tables that Java was asked for, by name."""
        self.parsed = 0
        """The number of frontiers that were read."""
        self._of = Frontier.of
        monkeypatch.setattr(Frontier, "of", classmethod(lambda _, text: self._read(text)))
        monkeypatch.setattr("streamtable.catalog.index.table_names", lambda _: [("c", "d", "a"), ("c", "d", "b")])
        monkeypatch.setattr("streamtable.catalog.index.find", self._find)
        monkeypatch.setattr("streamtable.delta.latest.versions_or_why", self._latest)
        monkeypatch.setattr("streamtable.delta.latest.monotonic", lambda: self.clock)
        monkeypatch.setattr("streamtable.schedule.engine.settle_everywhere", lambda _: [])
        monkeypatch.setattr("streamtable.schedule.engine.switch", lambda _: SimpleNamespace(suspended_since=None))
        monkeypatch.setattr("streamtable.schedule.engine.time", SimpleNamespace(monotonic=lambda: self.clock))
        self._engine = Played(monkeypatch).engine

    def _read(self, text: str | None) -> Frontier | None:
        self.parsed += 1
        return self._of(text)

    def _find(self, _: object, found: Name) -> tuple[Any, Entry]:
        name = found.parts
        path, source = f"{self.place}/{name[-1]}", Version("id", 5)
        version = self.versions[path]
        frontier = Frontier(
            {f"{self.place}/s": source},
            {},
            version - 1,
            number=2,
            fingerprint="0123456789abcdef",
            action="FULL",
            exact=True,
            at=TASK.vector.at,
        )
        definition = replace(DEFINITION, sources={f"{self.place}/s": "shop.s"})
        entry = Entry(definition, TableState(path, "id", version, {}, "", (), frontier.to_json()), name)
        return SimpleNamespace(kind="delta"), entry

    def _latest(self, _: object, paths: Sequence[str]) -> tuple[Version, ...]:
        self.asked += [path[-1] for path in paths]
        return tuple(Version("id", self.versions[path]) for path in paths)

    def __call__(self) -> tuple[list[str], list[str], int]:
        """Return which tables are behind, what Java was asked for, and how many frontiers were read."""
        self.asked, self.parsed = [], 0
        self.clock += 5
        tables = self._engine.observe().tables
        return sorted(path[-1] for path, table in tables.items() if table.moved), sorted(self.asked), self.parsed


def test_polls_read_tables_on_this_disk_again_only_when_they_have_a_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A thousand unchanged tables took seconds of each poll: each was asked for by Java, and what its log says was parsed anew."""
    look = Looks(monkeypatch, f"file:{tmp_path}")

    def commit(name: str, version: int) -> None:
        log = tmp_path / name / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        (log / f"{version:020d}.json").touch()
        look.versions[f"{look.place}/{name}"] = version

    for name in "abs":
        commit(name, 5)
    assert look() == ([], ["s"], 2), "the logs of the stream tables have just been read"
    assert look() == ([], ["a", "b"], 0)
    polls = [look() for _ in range(12)]
    assert [(again, number) for _, again, number in polls[:4]] == [([], 0)] * 4
    assert {name for _, again, _ in polls[4:] for name in again} == {"a", "b", "s"}, "another table may have been made there"
    commit("s", 6)
    behind, again, number = look()
    assert (behind, "s" in again, number) == (["a", "b"], True, 0)
    commit("b", 6)
    behind, again, number = look()
    assert (behind, "b" in again, number) == (["a", "b"], True, 1)


def test_a_poll_lists_each_log_of_another_storage_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store bills by requests, and a poll listed the log of each stream table twice."""
    look = Looks(monkeypatch, "s3a://bucket")
    look()
    assert look() == ([], ["a", "b", "s"], 0)
    look.versions["s3a://bucket/s"] = 6
    assert look() == (["a", "b"], ["a", "b", "s"], 0)
    look.versions["s3a://bucket/b"] = 6
    assert look() == (["a", "b"], ["a", "b", "s"], 1)


def test_a_transient_error_is_tried_again_and_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    assert played.refresh(CONFLICT, CONFLICT, DONE) == DONE
    assert (played.failures, set(played.groups)) == ([], {"streamtable shop.a"})


def test_a_refresh_that_is_cancelled_takes_no_other_refresh_of_the_table_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh by hand, or by another scheduler, runs in the same group of jobs: `stop` cancelled it, and its table was suspended."""
    played, other, running = Played(monkeypatch), replace(TASK, tag="another"), list[str]()
    carry_out = played._carry_out

    def seen(*given: Any) -> tuple[None, Refreshed]:
        running.extend(played.tags)
        return carry_out(*given)

    monkeypatch.setattr("streamtable.schedule.engine.carry_out", seen)
    assert played.refresh(DONE) == DONE
    assert (running, played.tags) == ([TASK.tag], []), "the thread serves other tables afterwards"
    played.engine.cancel(other)
    played.engine.cancel(TASK)
    assert (TASK.group, played.cancelled) == (other.group, ["another", TASK.tag])
    assert replace(TASK, deadline=TASK.vector.at).tag == TASK.tag != Task(TASK.path, TASK.name, TASK.vector, joins=False).tag


def test_a_transient_error_counts_once_when_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, retries="2")
    assert played.refresh(*[TROUBLE] * 3) == Failed("shop.a failed")
    ((record, suspended_by),) = played.written
    assert (record.action, record.initiated_by) == (Action.FAILED, "SCHEDULER")
    assert record.reason == "[STREAMTABLE_REFRESH_FAILED] the storage does not answer"
    assert suspended_by is None


def test_another_refresh_that_comes_first_each_time_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, retries="2", suspendAfter="1")
    assert played.refresh(*[CONFLICT] * 3) == Failed("another session refreshed shop.a meanwhile")
    assert played.written == []


def test_the_pauses_double_up_to_a_minute_with_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, retries="8")
    played.refresh(*[CONFLICT] * 8, DONE)
    assert all(2**n <= pause < 2**n + 1 for n, pause in enumerate(played.pauses[:6]))
    assert played.pauses[6:] == [LONGEST_BACKOFF] * 2
    assert any(pause % 1 for pause in played.pauses[:6])


def test_a_permanent_error_is_not_tried_again_and_the_third_in_a_row_suspends(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    for _ in range(3):
        assert played.refresh(GONE) == Failed("shop.a failed")
    assert [record.reason for record, _ in played.written] == ["[STREAMTABLE_SOURCE_UNAVAILABLE] the source is gone"] * 3
    first, second, third = (suspended_by for _, suspended_by in played.written)
    assert (first, second) == (None, None)
    assert third is not None
    assert (third.message, third.condition, third.failures) == ("the source is gone", "STREAMTABLE_SOURCE_UNAVAILABLE", 3)
    assert third.at <= datetime.now(timezone.utc)


def test_a_table_that_is_no_more_where_it_was_is_looked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was refreshed at its old path, in vain, until the process ended."""
    played, forgotten = Played(monkeypatch), list[str]()
    monkeypatch.setattr("streamtable.catalog.index.Index.forget", lambda _, path: forgotten.append(path))
    assert played.refresh(GONE) == Failed("shop.a failed") and forgotten == []
    assert played.refresh(StreamTableNotFound("shop.a is no stream table any more")) == Failed("shop.a failed")
    assert forgotten == [TASK.path]


def test_a_success_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, suspendAfter="2")
    for end in (GONE, DONE, GONE, DONE, ValueError("whatever")):
        played.refresh(end)
    assert played.failures == [None, None, None]
    played.refresh(GONE)
    assert played.failures == [None, None, None, 2]


def test_failures_count_across_schedulers_and_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    for _ in range(3):
        played.refresh(GONE)
        played.start_again()
    assert played.failures == [None, None, 3]


def test_a_skip_in_between_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, suspendAfter="2")
    played.refresh(GONE)
    played.engine.skip(TASK.path, "another one failed")
    played.refresh(GONE)
    assert played.failures == [None, 2]


def test_a_resume_that_nobody_saw_begins_the_count_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, suspendAfter="2")
    for _ in range(2):
        played.refresh(GONE)
    assert (played.definition.status, played.failures) == (SUSPENDED, [None, 2])
    played.resume()
    assert (played.definition.status, played.definition.error) == (ACTIVE, None)
    for _ in range(2):
        played.refresh(GONE)
    assert played.failures == [None, 2, None, 2]


def test_a_suspended_table_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    assert played.refresh(StreamTableSuspended("it is")) == Failed("shop.a is suspended")
    assert played.written == []


def test_what_fails_because_the_scheduler_stops_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    played.stopping.set()
    assert played.refresh(CONFLICT) == Failed("shop.a failed")
    assert played.written == []
