"""A source whose folder was replaced by an older copy, and written to again, has other commits under the numbers that were read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.catalog.restored import restored
from streamtable.delta import commit_ids, tables
from streamtable.delta.commit_ids import commits_since, is_same
from streamtable.delta.tables import Located, TableState, Version
from streamtable.errors import HistoryLost
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.queue import history
from streamtable.queue.consumers import Consumer
from streamtable.refresh import facts
from streamtable.refresh.choose import Action, Facts, choose
from streamtable.refresh.frontier import Frontier
from streamtable.refresh.targets import pinned
from streamtable.replication import apply
from streamtable.replication.source import SourceTable
from streamtable.replication.subscriptions import SubscribedTable
from streamtable.subscribing import inputs as subscribed
from streamtable.subscribing.inputs import Input, Inputs

SPARK: Any = SimpleNamespace(_jsparkSession=None)
NOW = datetime(2026, 11, 29, tzinfo=timezone.utc)
TEN = Version("t", 10, "read")


class Log:
    """The log of the table at /s, by its commits; `asked` are the versions whose commits were looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, commits: Mapping[int, str]) -> None:
        self.found, self.asked = dict(commits), list[int]()
        for module in (commit_ids, tables):
            monkeypatch.setattr(module, "bridge", lambda _: self)
        monkeypatch.setattr(subscribed, "versions", lambda *_: (self.latest,))
        monkeypatch.setattr(subscribed, "state", lambda *_: SimpleNamespace(schema_json="{}"))

    @property
    def latest(self) -> Version:
        return Version("t", max(self.found), self.found[max(self.found)])

    def commit(self, _: object, path: str, version: int) -> str | None:
        assert path == "/s"
        self.asked.append(version)
        return self.found.get(version)

    def commits(self, _: object, path: str, after: int, upto: int) -> str:
        facts = ("data_change", "removes_rows", "removes_files", "rows", "uncounted_bytes", "feed_bytes")
        return json.dumps([{"version": n, "transactions": [], **dict.fromkeys(facts, 0)} for n in self.found if after < n <= upto])


@pytest.mark.parametrize(
    ("one", "other", "same", "replaces"),
    [
        (TEN, Version("t", 10, "read"), True, False),
        (TEN, Version("t", 10, "written again"), False, True),
        (TEN, Version("t", 10), True, False),  # a frontier of an earlier release, or a log that lost the commit
        (TEN, Version("t", 11, "read"), False, False),
        (TEN, Version("u", 10, "written again"), False, False),
    ],
)
def test_versions_are_the_same_unless_they_are_known_to_differ(one: Version, other: Version, same: bool, replaces: bool) -> None:
    assert (one == other, other == one, {"/s": one} == {"/s": other}) == (same,) * 3
    assert (one.replaces(other), other.replaces(one)) == (replaces, replaces)
    assert not same or hash(one) == hash(other)


@pytest.mark.parametrize(
    ("target", "action"),
    [
        (Version("t", 10, "written again"), Action.REINITIALIZE),
        (Version("t", 10, "read"), Action.NO_DATA),
        (Version("t", 10), Action.NO_DATA),
    ],
)
def test_a_source_at_the_same_version_by_another_commit_is_not_unchanged(target: Version, action: Action) -> None:
    frontier = Frontier({"/s": TEN}, {}, 0, 1, "plan", "FULL", exact=True)
    found = choose(RefreshMode.AUTO, False, frontier, {"/s": target}, Facts("plan"))
    assert (found.action, "version 10 of the table at /s is another one" in found.reason) == (action, action is not Action.NO_DATA)
    before = Frontier({"/s": Version("t", 10)}, {}, 0, 1, "plan", "FULL", exact=True)
    assert choose(RefreshMode.AUTO, False, before, {"/s": target}, Facts("plan")).action is Action.NO_DATA


@pytest.mark.parametrize(
    ("commits", "lost"),
    [
        ({10: "read", 11: "b"}, False),
        ({10: "written again", 11: "b"}, True),
        ({11: "b"}, False),  # cleaned up: there is nothing to judge by
    ],
)
def test_only_the_commits_after_the_one_that_was_read_are_its_changes(
    commits: Mapping[int, str], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch, commits)
    if lost:
        with pytest.raises(HistoryLost, match="an older copy of its folder took its place"):
            commits_since(SPARK, "/s", TEN, 11)
    else:
        assert [each.version for each in commits_since(SPARK, "/s", TEN, 11)] == [11]
    assert log.asked == [10]
    assert [each.version for each in commits_since(SPARK, "/s", Version("t", 10), 11)] == [11]
    assert log.asked == [10], "a version of an earlier release asks for nothing"
    assert is_same(SPARK, "/s", TEN, Version("t", 10, "read")) and log.asked == [10], "the latest version answers for itself"


@pytest.mark.parametrize(
    ("latest", "wanted", "before", "commit"),
    [
        (Version("t", 12, "l"), Version("t", 10, "w"), Version("t", 9, "b"), "w"),
        (Version("t", 12, "l"), Version("t", 10, "w"), Version("t", 11, "b"), "b"),
        (Version("t", 12, "l"), Version("t", 10, "w"), Version("t", 10, "b"), "w"),
        (Version("t", 10, "l"), Version("t", 10, "w"), Version("t", 10, "b"), "l"),  # what is there now is read
        (Version("t", 12, "l"), None, Version("t", 9, "b"), "l"),
    ],
)
def test_a_version_that_is_read_keeps_its_own_commit(latest: Version, wanted: Version | None, before: Version, commit: str) -> None:
    assert pinned(latest, wanted, before).commit == commit


def test_a_frontier_remembers_commits_and_is_read_without_them() -> None:
    frontier = Frontier({"/s": TEN}, {"a": 3}, 0, 1, "p", "FULL", True, arrangement_ids={"a": "x"}, arrangement_commits={"a": "c"})
    found = Frontier.of(frontier.to_json())
    assert found and (found.sources["/s"].commit, found.arrangement("a")) == ("read", Version("x", 3, "c"))
    assert found.moved({"/s": "/elsewhere"}).sources["/elsewhere"].commit == "read"
    old = json.loads(frontier.to_json())
    del old["sources"]["/s"]["commit"], old["arrangement_commits"]
    before = Frontier.of(json.dumps(old))
    assert before and (before.sources["/s"].commit, before.arrangement("a")) == (None, Version("x", 3))


def test_a_foreign_write_to_a_copy_of_the_stream_table_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process had seen as many commits of the table before an older copy took its place."""
    written = {9: "id", 10: "id"}

    def commits(_: object, path: str, after: int, upto: int) -> list[SimpleNamespace]:
        every = [(n, written[n]) for n in range(after + 1, upto + 1)]
        return [SimpleNamespace(version=n, operation="WRITE", data_change=True, transactions=(by,)) for n, by in every]

    def look(number: int, commit: str) -> str | None:
        state = TableState("/t", "t", number, {}, "", (), None, commit=commit)
        entry: Any = SimpleNamespace(path="/t", definition=SimpleNamespace(id="id"), state=state)
        return facts.foreign(SPARK, entry, Frontier({}, {}, 8, 1, "plan", "FULL", exact=True))

    monkeypatch.setattr(facts, "commits", commits)
    monkeypatch.setattr(facts, "_ours", {})
    log = Log(monkeypatch, {9: "a", 10: "b"})
    assert look(10, "b") is None
    written |= {10: "somebody else", 11: "id"}
    log.found |= {10: "other", 11: "c"}
    assert look(10, "other") == look(11, "c") == "version 10 of the table (WRITE) was not written by a refresh"


def reader(monkeypatch: pytest.MonkeyPatch, commits: Mapping[int, str]) -> tuple[Log, Inputs]:
    log = Log(monkeypatch, commits)
    return log, Inputs(SPARK, [Input("/s", (), "t", "{}")], lambda *_: None)


AFTERWARDS = [
    ({8: "a"}, True),  # the older copy itself
    ({8: "a", 9: "c", 10: "d"}, True),
    ({8: "a", 9: "c", 10: "d", 11: "e"}, True),
    ({8: "a", 9: "b", 10: "read", 11: "e"}, False),
    ({11: "e"}, False),
]


@pytest.mark.parametrize(("commits", "ends"), AFTERWARDS)
def test_a_subscriber_does_not_go_on_over_an_older_copy(
    commits: Mapping[int, str], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, inputs = reader(monkeypatch, {9: "b", 10: "read"})
    assert inputs.latest() == (10,)
    log.found = dict(commits)
    if ends:
        for _ in range(2):
            with pytest.raises(HistoryLost, match="an older copy of .*/s.* took its place: the subscription ends"):
                inputs.latest()
    else:
        assert inputs.latest() == (max(commits),)
    assert inputs.overtaken is ends


@pytest.mark.parametrize(("commits", "lost"), AFTERWARDS[1:])
def test_a_consumer_does_not_go_on_over_an_older_copy(
    commits: Mapping[int, str], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, inputs = reader(monkeypatch, {9: "b", 10: "read"})
    consumer = Consumer("c", 10, 0, NOW, NOW, NOW, tables=("t",), commits=inputs.commits_of(10))
    assert (consumer.commits, inputs.commits_of(9), inputs.commits_of(7)) == (("read",), ("b",), (None,))
    kept = json.dumps(asdict(replace(consumer, commits=("read", None))), default=datetime.isoformat)
    assert restored(Consumer, json.loads(kept)).commits == ("read", None)
    _, inputs = reader(monkeypatch, commits)
    queue: Any = "q"
    if lost:
        with pytest.raises(HistoryLost, match="an older copy of .* since c of q came to 10") as error:
            history.check(SPARK, queue, consumer, inputs, 10)
        assert "UNREGISTER CONSUMER c" in str(error.value)
    else:
        history.check(SPARK, queue, consumer, inputs, 10)
    history.check(SPARK, queue, Consumer("old", 10, 0, NOW, NOW, NOW), inputs, 10)


@pytest.mark.parametrize(("commits", "lost"), AFTERWARDS[1:])
def test_a_subscription_does_not_go_on_over_an_older_copy(
    commits: Mapping[int, str], lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def table(known: str | None) -> apply.AppliedTable:
        source = SourceTable("s", "/s", "t", max(commits), ("k",), None, False, ())
        relation = SubscribedTable("u", "id", "t", "ready", 10, None, None, None, "", target_id="mine", commit=known)
        return apply.AppliedTable(SPARK, source, Located(("u",), "delta", "/u"), relation, foreign_only=False)

    Log(monkeypatch, commits)
    monkeypatch.setattr(apply, "transaction", lambda *_: None)
    monkeypatch.setattr(apply, "state", lambda *_: TableState("/u", "mine", 0, {}, "", (), None))
    monkeypatch.setattr(apply, "retained", lambda *_: SimpleNamespace(changes=10))
    assert table("read").is_lost() is lost
    assert table("read").commit() == "read"
    assert not table(None).is_lost(), "a position of an earlier release"
    assert table(None).commit() == commits.get(10)
    if lost:
        with pytest.raises(HistoryLost, match="an older copy of s took its place"):
            table("read").follow()
