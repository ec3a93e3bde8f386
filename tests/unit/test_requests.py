"""REFRESH ... ASYNC: how a request is stored, who may take it, when its table is due, and what ends it. Spark is played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import networkx as nx
import pytest
from pyspark.sql import SparkSession
from tests.unit.jvm import Raised, java

from streamtable.catalog.definition import SUSPENDED, Definition, code_of
from streamtable.catalog.entries import Entry
from streamtable.catalog.owners import gone, owner
from streamtable.catalog.requests import LEASE, Request, requests_of
from streamtable.delta.tables import TableState, Version
from streamtable.errors import ConcurrentRefresh, RefreshError, SourceUnavailable, StreamTableSuspended
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.schedule import Calculated, Manual, Schedule, duration
from streamtable.refresh.choose import Action
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.records import Cause, Initiator, Record
from streamtable.schedule import requests
from streamtable.schedule.cycle import Cycle, Refreshed, Task
from streamtable.schedule.due import NEVER, ScheduledTable, deadlines, graph_of, plan
from streamtable.schedule.engine import SparkEngine, table_of
from streamtable.schedule.interface import Again, Failed

NOON = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
ASKED = Request("r1", NOON)
STATEMENT = parse("CREATE STREAM TABLE shop.a AS SELECT 1 AS x")
assert isinstance(STATEMENT, CreateStreamTable)
DEFINITION = Definition(STATEMENT, "id", ("spark_catalog",), {}, {})
FRONTIER = Frontier({}, {}, base=0, number=1, fingerprint="0123456789abcdef", action="FULL", exact=True, at=NOON).to_json()
DONE = Refreshed(Version("id", 2), {})


def stored(*asked: Request) -> dict[str, str]:
    return {key: str(value) for each in asked for key, value in each.properties().items()}


def test_requests_are_read_as_they_were_written_the_first_one_first() -> None:
    taken = replace(ASKED, id="r0", full=True).taken_by("here", NOON + timedelta(seconds=5))
    later = Request("r2", NOON + timedelta(seconds=1))
    assert requests_of(stored(later, ASKED, taken)) == (taken, ASKED, later)


@pytest.mark.parametrize("text", ["", "5", "[]", "{}", '{"at": "noon"}', '{"at": "2026-06-01T12:00:00"}', "[" * 100_000])
def test_what_is_no_request_is_left_out(text: str) -> None:
    assert requests_of({"streamtable.request.x": text, **stored(ASKED)}) == (ASKED,)


def test_a_request_is_taken_from_a_process_that_is_gone_or_has_not_been_seen_for_long() -> None:
    machine = owner().partition("-")[0]
    mine = ASKED.taken_by(owner(), NOON)
    assert ASKED.free(NOON) and not mine.free(NOON + LEASE)
    assert mine.free(NOON + 2 * LEASE)
    assert not replace(mine, by="elsewhere-1-1").free(NOON + LEASE)
    for dead in (f"{machine}-{2**22 + 1}-1", f"{machine}-{'9' * 50}-1", f"{machine}-x", machine):
        assert gone(dead) and replace(mine, by=dead).free(NOON)
    assert mine.taken_by(None, NOON) == ASKED


def test_a_request_is_no_part_of_the_definition() -> None:
    before = {key: value for key, value in DEFINITION.properties().items() if value is not None}
    assert code_of({**before, **stored(ASKED)}) == code_of(before)
    assert Definition.same_rows(before, {**before, **stored(ASKED)})


def table(path: str, sources: str = "base", schedule: Schedule | None = None, asked: Request | None = None) -> ScheduledTable:
    schedule = schedule or Manual()
    return ScheduledTable(path, path, schedule, tuple(sources.split()), NOON, behind=asked is not None, request=asked)


def work(*tables: ScheduledTable) -> list[str]:
    return [each.path for each in plan({each.path: each for each in tables}, NOON).work]


def test_a_request_makes_a_table_due_whatever_its_schedule() -> None:
    assert work(table("a")) == []
    assert work(table("a", asked=ASKED)) == work(table("a", schedule=duration("1h"), asked=ASKED)) == ["a"]
    assert work(replace(table("a", asked=ASKED), since=NOON + timedelta(hours=1))) == ["a"]


def test_a_suspended_table_waits_with_its_request() -> None:
    suspended = replace(table("a", asked=ASKED), suspended=True)
    assert deadlines({"a": suspended}, graph_of([suspended]))["a"] == NEVER
    assert work(suspended) == []


def test_requested_tables_come_after_what_they_read_manual_ones_too() -> None:
    assert work(table("a", "b", asked=ASKED), table("b", asked=ASKED), table("c", "a")) == ["b", "a"]
    behind = replace(table("b", schedule=Calculated()), behind=True)
    assert work(table("a", "b", asked=ASKED), behind) == ["b", "a"]


class Played:
    """One table whose properties are changed by commits, and an engine whose refreshes end as told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *asked: Request) -> None:
        self.properties, self.version = stored(*asked), 1
        self.definition = DEFINITION
        self.records: list[Record] = []
        self.ends: list[Exception | Refreshed] = []
        self.did: list[tuple[Initiator, bool, str | None]] = []
        self.conflicts = 0
        for name in ("requests", "failures"):
            monkeypatch.setattr(f"streamtable.schedule.{name}.find_at", lambda *_: self.entry())
            monkeypatch.setattr(f"streamtable.schedule.{name}.annotate", self.annotate)
        monkeypatch.setattr("streamtable.schedule.failures.history", lambda *_: [])
        monkeypatch.setattr("streamtable.schedule.engine.carry_out", self.carry_out)
        monkeypatch.setattr("streamtable.schedule.engine.as_it_is", lambda *_: DONE)
        monkeypatch.setattr("streamtable.refresh.records.PATIENCE.wait", lambda *_: 0)
        monkeypatch.setattr("streamtable.schedule.cycle.dependencies", lambda _: self.graph)
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        context = SimpleNamespace(setJobGroup=lambda *_, **__: None, addJobTag=lambda _: None, removeJobTag=lambda _: None)
        self.spark = cast("SparkSession", SimpleNamespace(conf=SimpleNamespace(get=lambda *_: None), sparkContext=context))
        self.engine = SparkEngine(self.spark)

    def entry(self) -> Entry:
        state = TableState("/a", "id", self.version, dict(self.properties), "", (), FRONTIER)
        return Entry(self.definition, state, ("spark_catalog", "shop", "a"))

    def annotate(
        self, spark: object, entry: Entry, record: Record | None = None, properties: Mapping[str, str | None] | None = None
    ) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise ConcurrentRefresh("another commit came first")
        changed = {key: value for key, value in (properties or {}).items() if entry.state.properties.get(key) != value}
        assert all(self.properties.get(key) == entry.state.properties.get(key) for key in changed), "Delta conflicts there"
        if record:
            self.records.append(record)
            changed |= {f"streamtable.request.{record.request}": None} if record.request else {}
        self.properties = {k: v for k, v in {**self.properties, **changed}.items() if v is not None}
        self.version += 1

    def carry_out(self, spark: object, task: Task, cause: Cause, full: bool) -> tuple[None, Refreshed]:
        self.did.append((cause.initiator, full, cause.request))
        end = self.ends.pop(0)
        if isinstance(end, Exception):
            raise end
        self.properties.pop(f"streamtable.request.{cause.request}", None)  # by the commit of the refresh
        return None, end

    def refresh(self, *ends: Exception | Refreshed, seen: Request | None = None, engine: SparkEngine | None = None) -> Any:
        self.ends = list(ends)
        seen = seen or table_of(self.entry(), Vector({}, NOON)).request
        task = Task("/a", "shop.a", Vector({}, NOON), joins=False, request=seen)
        return (engine or self.engine).refresh(task, 1, Event())

    @property
    def open(self) -> list[Request]:
        return list(requests_of(self.properties))


def test_a_request_is_carried_out_once_and_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, replace(ASKED, full=True))
    assert played.refresh(DONE) == DONE
    assert (played.did, played.open) == ([(Initiator.REQUEST, True, "r1")], [])
    assert played.refresh(DONE) == DONE
    assert played.did[1:] == [(Initiator.SCHEDULER, False, None)]


def test_of_two_schedulers_that_saw_a_request_one_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    played, others = Played(monkeypatch, ASKED), list[Any]()

    def meanwhile(*_: object) -> tuple[None, Refreshed]:
        others.append(played.refresh(seen=ASKED, engine=SparkEngine(played.spark)))
        return None, DONE

    monkeypatch.setattr("streamtable.schedule.engine.carry_out", meanwhile)
    assert played.refresh(seen=ASKED) == DONE
    assert others == [DONE], "the other one leaves the table as it is"
    assert [each.by for each in played.open] == [None], "nobody ended it here, and it was given back"


def test_a_request_that_was_made_again_after_a_look_waits_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its author may have written since, and the refresh would not read that."""
    played = Played(monkeypatch, replace(ASKED, at=NOON + timedelta(seconds=1)))
    assert played.refresh(seen=ASKED) == DONE
    assert (played.did, [each.by for each in played.open]) == ([], [None])


def test_requests_for_readers_wait_while_another_scheduler_carries_out_that_of_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = ASKED.taken_by("elsewhere-1-1", NOON)
    for of_a, of_b in ((ASKED, ASKED), (taken, None)):
        above = Played(monkeypatch, of_a).entry()
        below = replace(above, definition=replace(DEFINITION, sources={"/a": "shop.a"}))
        below = replace(below, state=replace(below.state, path="/b", properties=stored(ASKED)))
        tables = {path: table_of(entry, Vector({}, NOON)) for path, entry in (("/a", above), ("/b", below))}
        assert requests.in_order(tables, [above, below], NOON)["/b"].request == of_b
    graph = graph_of([table("a"), table("b", "a", asked=ASKED), table("c", "a", duration("1m"))])
    cycle = Cycle(graph, {path: path for path in "abc"}, Vector({}, NOON), {"a": ASKED, "b": ASKED})
    assert cycle.refreshed(cycle.start("a"), replace(DONE, elsewhere=True)) == [], "nobody is told that a request waits"
    assert cycle.ready() == ["c"]


def test_a_lasting_failure_ends_a_request_and_a_transient_one_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, ASKED)
    trouble = RefreshError("the storage does not answer")
    trouble.__cause__ = Raised(java("java.io.IOException"))
    assert isinstance(played.refresh(trouble), Again)
    assert played.open == [ASKED]
    assert played.refresh(SourceUnavailable("gone")) == Failed("shop.a failed")
    ((record,), waiting) = played.records, played.open
    assert (record.action, record.request, record.initiated_by, waiting) == (Action.FAILED, "r1", "REQUEST", [])


def test_a_scheduler_that_stops_or_finds_its_table_suspended_gives_the_request_back(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch, ASKED)
    assert played.refresh(StreamTableSuspended("suspended")) == Failed("shop.a is suspended")
    assert played.open == [ASKED]


def test_a_request_of_this_process_that_no_scheduler_of_it_carries_out_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler was stopped here before it could give the request back."""
    taken = ASKED.taken_by(owner(), NOON)
    assert Played(monkeypatch, taken).refresh(DONE) == DONE
    assert table_of(Played(monkeypatch, replace(taken, by="elsewhere-1-1")).entry(), Vector({}, NOON)).request is None


def ask(played: Played, full: bool = False) -> Mapping[str, str]:
    return requests.request(played.spark, [played.entry()], full, with_sources=False)


def test_requests_join_until_one_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    played.conflicts = 2
    first = ask(played)["shop.a"]
    assert ask(played) == {"shop.a": first}
    assert set(ask(played, full=True).values()) == {first}
    (joined,) = played.open
    assert (joined.id, joined.full) == (first, True)
    assert requests.take(played.spark, "/a", joined) is not None
    assert first not in ask(played).values()
    assert len(played.open) == 2


def test_a_suspended_table_takes_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    played = Played(monkeypatch)
    played.definition = replace(DEFINITION, status=SUSPENDED)
    with pytest.raises(StreamTableSuspended, match=r"is suspended, by ALTER STREAM TABLE \.\.\. SUSPEND"):
        ask(played)
    assert played.open == []
