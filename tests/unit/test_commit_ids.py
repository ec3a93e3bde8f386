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
from streamtable.delta import commit_ids, summaries, tables
from streamtable.delta.commit_ids import commits_since, is_same
from streamtable.delta.tables import Located, TableState, Version
from streamtable.errors import HistoryLost, ReplicationConflict
from streamtable.language.names import Name
from streamtable.language.stream_table.ast import RefreshMode
from streamtable.observe import freshness, health
from streamtable.queue import consumers, history, retries
from streamtable.queue.consumers import Consumer
from streamtable.refresh import facts
from streamtable.refresh.choose import Action, Facts, choose
from streamtable.refresh.frontier import Frontier, Vector
from streamtable.refresh.targets import pinned
from streamtable.replication import apply, run
from streamtable.replication.source import SourceTable
from streamtable.replication.subscriptions import SubscribedTable
from streamtable.replication.writer import Applied
from streamtable.subscribing import feed
from streamtable.subscribing import inputs as subscribed
from streamtable.subscribing.inputs import Input, Inputs

SPARK: Any = SimpleNamespace(_jsparkSession=None)
NOW = datetime(2026, 11, 29, tzinfo=timezone.utc)
TEN = Version("t", 10, "read")


class Log:
    """The log of the table at /s, by its commits; `asked` are the versions whose commits were looked up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, commits: Mapping[int, str]) -> None:
        self.found, self.asked = dict(commits), list[int]()
        for module in (commit_ids, summaries, tables):
            monkeypatch.setattr(module, "bridge", lambda _: self)
        monkeypatch.setattr(subscribed, "versions", lambda *_: (self.latest,))
        monkeypatch.setattr(subscribed, "state", lambda *_: SimpleNamespace(schema_json="{}"))
        monkeypatch.setattr(apply.AppliedTable, "_other_column", lambda _: None)

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
        ({10: "read", 11: "b"}, None),
        ({10: "written again", 11: "b"}, "version 10 .* another one than was read: an older copy of its folder took its place"),
        ({11: "b"}, "no longer holds version 10, so an older copy"),  # an older copy that was cleaned up
        ({12: "c"}, "does not hold all versions"),
    ],
)
def test_only_the_commits_after_the_one_that_was_read_are_its_changes(
    commits: Mapping[int, str], lost: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, upto = Log(monkeypatch, commits), max(commits)
    if lost:
        with pytest.raises(HistoryLost, match=lost):
            commits_since(SPARK, "/s", TEN, upto)
    else:
        assert [each.version for each in commits_since(SPARK, "/s", TEN, upto)] == [11]
    assert log.asked == [10]
    if 11 in commits:
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
    frontier = Frontier(
        {"/s": TEN}, {"a0": 3}, 0, 1, "0123456789abcdef", "FULL", True, arrangement_ids={"a0": "x"}, arrangement_commits={"a0": "c"}
    )
    found = Frontier.of(frontier.to_json())
    assert found and (found.sources["/s"].commit, found.arrangement("a0")) == ("read", Version("x", 3, "c"))
    assert found.moved({"/s": "/elsewhere"}).sources["/elsewhere"].commit == "read"
    old = json.loads(frontier.to_json())
    del old["sources"]["/s"]["commit"], old["arrangement_commits"]
    before = Frontier.of(json.dumps(old))
    assert before and (before.sources["/s"].commit, before.arrangement("a0")) == (None, Version("x", 3))


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
            history.check(queue, consumer, inputs, 10)
        assert "UNREGISTER CONSUMER c" in str(error.value)
    else:
        history.check(queue, consumer, inputs, 10)
    history.check(queue, Consumer("old", 10, 0, NOW, NOW, NOW), inputs, 10)


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


def test_a_crash_before_a_subscription_kept_its_position_hides_no_older_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The target records with its rows that version 11 was applied; the subscription still says 10."""
    Log(monkeypatch, {10: "written again", 11: "d", 12: "e"})
    monkeypatch.setattr(apply, "transaction", lambda *_: 11)
    monkeypatch.setattr(apply, "state", lambda *_: TableState("/u", "mine", 0, {}, "", (), None))
    relation = SubscribedTable("u", "id", "t", "ready", 10, None, None, None, "", target_id="mine", commit="read")
    source = SourceTable("s", "/s", "t", 12, ("k",), None, False, ())
    table = apply.AppliedTable(SPARK, source, Located(("u",), "delta", "/u"), relation, foreign_only=False)
    assert table.position == 11 and table.is_lost()


FORGETS = {"delta.setTransactionRetentionDuration": "interval 7 days"}


@pytest.mark.parametrize(
    ("recorded", "written", "properties", "goes_on_from", "then"),
    [
        (6, 9, {}, 6, 6),  # an older copy: what it had since is sent again
        (6, 9, FORGETS, 6, 6),
        (None, 9, {}, None, 9),  # of before its first rows: nothing tells where it is
        (None, 9, FORGETS, 9, None),  # Delta forgot it
        (9, 6, {}, 9, 9),  # killed before the subscription kept its position
        (6, 6, {}, 9, 6),  # the versions since had nothing for it
        (6, None, {}, 9, 6),  # a subscription of an earlier release
        (None, None, {}, 9, None),  # without a copy, and nothing came yet
    ],
)
def test_a_subscribers_table_that_comes_back_from_a_backup_misses_no_changes(
    recorded: int | None,
    written: int | None,
    properties: Mapping[str, str],
    goes_on_from: int | None,
    then: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Log(monkeypatch, {n: str(n) for n in range(5, 10)})
    monkeypatch.setattr(apply, "transaction", lambda *_: recorded)
    monkeypatch.setattr(apply, "state", lambda *_: TableState("/u", "mine", 3, properties, "", (), None))
    monkeypatch.setattr(apply, "retained", lambda *_: SimpleNamespace(changes=5))
    relation = SubscribedTable("u", "id", "t", "ready", 9, None, None, None, "", target_id="mine", commit="9", written=written)
    source = SourceTable("s", "/s", "t", 9, ("k",), None, False, ())
    table = apply.AppliedTable(SPARK, source, Located(("u",), "delta", "/u"), relation, foreign_only=False)
    sent = list[int]()
    monkeypatch.setattr(table, "_apply", lambda part: sent.extend(each.version for each in part))
    assert (table.is_lost(), table.written) == (goes_on_from is None, then)
    if goes_on_from is None:
        with pytest.raises(HistoryLost, match="an older copy of u took its place") as error:
            table.follow()
        assert "empty u; then ALTER SUBSCRIPTION" in str(error.value)
    else:
        table.follow()
        assert sent == [*range(goes_on_from + 1, 10)]


def test_an_older_copy_of_both_ends_is_not_taken_for_one_of_the_subscribers(monkeypatch: pytest.MonkeyPatch) -> None:
    Log(monkeypatch, {n: str(n) for n in range(5, 9)})
    monkeypatch.setattr(apply, "transaction", lambda *_: 6)
    monkeypatch.setattr(apply, "state", lambda *_: TableState("/u", "mine", 3, {}, "", (), None))
    relation = SubscribedTable("u", "id", "t", "ready", 9, None, None, None, "", target_id="mine", commit="9", written=9)
    source = SourceTable("s", "/s", "t", 8, ("k",), None, False, ())
    assert apply.AppliedTable(SPARK, source, Located(("u",), "delta", "/u"), relation, foreign_only=False).is_lost()


@pytest.mark.parametrize(
    ("known", "after", "error", "kept"),
    [
        ("read", 10, None, "now"),
        (None, 10, None, "now"),  # a subscription of an earlier release learns its commit
        ("read", 11, None, "now"),
        ("read", 11, apply.Stopped(12), "now"),  # version 11 was applied, 12 was not
        ("read", 10, apply.Stopped(11), "read"),
        (None, 10, HistoryLost("another"), None),  # what is there now is not what was read
    ],
)
def test_a_subscription_keeps_the_commit_of_what_it_applied(
    known: str | None, after: int, error: Exception | None, kept: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Table:
        position, done, target_id, target_version, written, source_id = after, Applied(), "mine", 7, None, "id"

        def follow(self) -> None:
            if isinstance(error, apply.Stopped):
                raise error from ReplicationConflict("a row is there already", 12)
            if error:
                raise error

        def commit(self) -> str:
            return "now"

    monkeypatch.setattr(run, "source_of", lambda *_: None)
    monkeypatch.setattr(run, "AppliedTable", lambda *_: Table())
    relation = SubscribedTable("u", "id", "t", "ready", 10, None, None, None, "", target_id="mine", commit=known)
    subscription: Any = SimpleNamespace(target=lambda *_: None, origin="any")
    moved, _, failed = run._advance(SPARK, subscription, relation, [])
    assert (moved.position, moved.commit, failed is None) == (after, kept, error is None)


@pytest.mark.parametrize(
    ("seen", "lost"),
    [
        (Version("t", 10, "read"), False),
        (Version("t", 9, "written again"), True),  # an older copy, to which others wrote since
        (Version("u", 9, "b"), True),
        (Version("t", 11, "later"), True),
        (Version("t", 9), False),  # a consumer of an earlier release
    ],
)
def test_events_that_were_put_off_are_not_looked_for_in_an_older_copy(
    seen: Version, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(monkeypatch, {9: "b", 10: "read"})
    monkeypatch.setattr(retries, "versions", lambda *_: (log.latest,))
    monkeypatch.setattr(retries, "_path", lambda _: "/s")
    queue: Any = SimpleNamespace(id="q")
    consumer = Consumer("c", 0, 0, NOW, NOW, NOW).begin(None, 1, NOW, seen)
    assert (consumer.retries_table, consumer.retries_at, consumer.retries_commit) == (seen.table_id, seen.number, seen.commit)
    if lost:
        with pytest.raises(HistoryLost, match="events that c put off are lost"):
            retries.Retries(SPARK, queue, consumer).version()
    else:
        assert retries.Retries(SPARK, queue, consumer).latest() == log.latest
    assert retries.Retries(SPARK, queue, Consumer("new", 0, 0, NOW, NOW, NOW)).version() == 10


def test_a_consumer_of_an_earlier_release_learns_the_commit_of_what_was_put_off() -> None:
    before = replace(Consumer("c", 0, 0, NOW, NOW, NOW), retries_at=10)
    assert before.begin(None, 1, NOW, Version("t", 10, "read")).retries_commit == "read"
    assert before.begin(None, 1, NOW).retries_at == 10


def test_a_new_subscriber_does_not_end_with_those_whose_table_an_older_copy_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody had looked since: the new one got the old relation, and its first look failed."""
    log = Log(monkeypatch, {10: "read"})
    closed = list[object]()

    class Relation:
        identity = "t"

        def __init__(self) -> None:
            self.inputs = Inputs(SPARK, [Input("/s", (), "t", "{}")], lambda *_: None)

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr(feed, "_open", lambda *_: Relation())
    spark: Any = SimpleNamespace(sparkContext=object())
    first, second = (feed.open_feed(spark, Name(("t",))) for _ in range(2))
    assert first is second and len(closed) == 1
    assert first.relation.inputs.latest() == (10,)
    log.found = {8: "a", 9: "c", 10: "d"}
    third = feed.open_feed(spark, Name(("t",)))
    assert third is not first and third.relation.inputs.latest() == (10,)
    with pytest.raises(HistoryLost, match="an older copy"):
        first.relation.inputs.latest()
    for each in (first, second, third):
        feed.close_feed(each)
    assert closed[1:] == [first.relation, third.relation] and not feed._feeds


def test_what_was_read_before_commits_were_known_tells_nothing_of_what_was_read_since(monkeypatch: pytest.MonkeyPatch) -> None:
    Log(monkeypatch, {6: "written again"})
    asked, latest = freshness._asked_once(SPARK), Version("t", 6, "written again")
    assert asked("/s", Version("t", 6), latest) == (False, None)
    assert asked("/s", Version("t", 6, "read"), latest) == (True, None)


def test_the_health_of_a_consumer_over_an_older_copy_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    _, inputs = reader(monkeypatch, {9: "b", 10: "read"})
    consumer = Consumer("c", 10, 0, NOW, NOW, NOW, tables=("t",), commits=inputs.commits_of(10))
    log, inputs = reader(monkeypatch, {9: "c", 10: "d", 11: "e"})
    vector = Vector({"/s": log.latest}, NOW)
    monkeypatch.setattr(health, "Vector", SimpleNamespace(read=lambda *_: vector))
    monkeypatch.setattr(consumers, "of", lambda *_: [consumer])
    monkeypatch.setattr(health, "reads_feed", lambda *_: True)
    monkeypatch.setattr(health, "_outlook", lambda spark, found, *_: found)
    queue: Any = "q"
    (found,) = health._consumers(SPARK, queue, inputs)
    assert (found.state, found.read) == (health.SourceState.LOST, 10)
    assert "version 10 of the table at /s is another one than was read" in str(found.warning)
