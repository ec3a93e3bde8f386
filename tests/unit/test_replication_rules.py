"""What replication decides without Spark: who the publisher is, which commits go together, how they are read, what a slot's state is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.kinds import SUBSCRIPTION, CatalogObject
from streamtable.catalog.paths import is_path
from streamtable.delta.summaries import CommitSummary
from streamtable.delta.tables import Located, TableState
from streamtable.errors import InvalidStatement, NotEnabled
from streamtable.language.names import Name
from streamtable.observe import health, look
from streamtable.observe.health import Health, SourceState
from streamtable.observe.replication_views import _status
from streamtable.replication import apply, operations, publisher
from streamtable.replication.publications import Published
from streamtable.replication.publisher import Folder, Schema, Server, publisher_of
from streamtable.replication.source import SourceTable
from streamtable.replication.subscriptions import APPLICATIONS, SubscribedTable, Subscription, slots_in_use

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


def commit(version: int, operation: str, **facts: Any) -> CommitSummary:
    known: dict[str, Any] = {"data_change": True, "removes_rows": operation not in ("WRITE", "OPTIMIZE"), "transactions": ()}
    known["removes_files"] = operation != "WRITE"
    rest = {"rows": 1, "uncounted_bytes": 0, "feed_bytes": 0, "feed": None, "user_metadata": None, "at": NOW}
    return CommitSummary(version=version, operation=operation, **(known | rest | facts))


def source(publish: str, key: tuple[str, ...] | None = None, full: bool = False) -> SourceTable:
    published = Published(("c", "s", "t"), "/t", "id", "p", (), None, tuple(publish.split()))
    return SourceTable("c.s.t", "/t", "id", 9, ("a",), key, full, (published,))


def test_the_connection_names_a_schema() -> None:
    assert publisher_of("database=d", "c") == Schema(("c", "d"))
    assert publisher_of(" database=`x`.d ", "c") == Schema(("x", "d"))
    assert Schema(("c", "d")).name("t").parts == ("c", "d", "t")


def test_the_connection_names_a_folder() -> None:
    assert publisher_of("warehouse=/wh/", "c") == Folder("/wh")
    assert publisher_of("warehouse='s3a://bucket/my wh' database=D", "c") == Folder("s3a://bucket/my wh/d.db")
    name = Folder("/wh/d.db").name("T")
    assert str(name) == "`spark_catalog`.`delta`.`/wh/d.db/t`"
    assert is_path(name.parts) and not is_path(("spark_catalog", "delta", "t"))


def test_the_connection_names_a_schema_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token.txt"
    token.write_text("abc\n")
    assert publisher_of("remote=sc://there:1/", "c") == Server("sc://there:1", Name(("default",)))
    server = publisher_of(f"remote=sc://there database=x.d token_file={token}", "c")
    answers = {
        "DESCRIBE DETAIL `x`.`d`.`T`": [{"location": "file:/else/where"}],
        "DESCRIBE DETAIL `x`.`d`.`far`": [{"location": "s3a://bucket/far"}],
        "DESCRIBE SCHEMA `x`.`d`": [("Location", "file:/wh/d.db/")],
        "SHOW TABLES IN `x`.`d`": [{"tableName": "T", "isTemporary": False}, {"tableName": "v", "isTemporary": True}],
    }

    def ask(remote: str, statement: str) -> Any:
        assert remote == "sc://there/;token=abc"
        if statement not in answers:
            raise AnalysisException("not found")
        return answers[statement]

    monkeypatch.setattr(publisher, "ask", ask)
    assert [server.name(name).parts[-1] for name in ("T", "far", "New")] == ["/else/where", "s3a://bucket/far", "/wh/d.db/new"]
    assert list(server.tables(cast(SparkSession, None))) == ["T"]
    del answers["DESCRIBE SCHEMA `x`.`d`"]
    with pytest.raises(InvalidStatement, match="sc://there has no schema `x`.`d`"):
        publisher_of(f"remote=sc://there database=x.d token_file={token}", "c").name("new")


def test_what_watches_asks_no_server_for_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def ask(remote: str, statement: str) -> Any:
        asked.append(remote)
        if "silent" in remote:
            raise NotEnabled("nobody answers", hint="start it")
        return [{"location": f"file:/wh/{remote[5:]}"}]

    def subscription(connection: str, enabled: bool = True) -> Subscription:
        known: dict[str, Any] = {"connection": connection, "slot": "s", "enabled": enabled, "publications": [], "tables": []}
        content = {**known, "disable_on_error": False, "origin": "any", "id": connection, "settings": {}}
        return Subscription.of(CatalogObject(SUBSCRIPTION, ("c", "d", "x"), "", 0, content))

    connections = ("remote=sc://there", "remote=sc://silent", "remote=sc://there token_file=/gone", "database=d", "warehouse=/wh")
    known = [*map(subscription, connections), subscription("database=off", enabled=False)]
    monkeypatch.setattr(publisher, "ask", ask)
    monkeypatch.setattr(publisher, "_told", {})
    monkeypatch.setattr(objects, "every_as", lambda *_: iter(known))
    spark = cast(SparkSession, None)
    near = {("c", "d", "s"): known[3], ("spark_catalog", "delta", "/wh/s"): known[4]}
    assert slots_in_use(spark, asking=False) == near
    assert asked == []
    everywhere = {("spark_catalog", "delta", "/wh/there"): known[0], **near}
    assert slots_in_use(spark, asking=True) == everywhere
    assert asked == ["sc://there", "sc://silent"]
    assert slots_in_use(spark, asking=False) == everywhere
    assert asked == ["sc://there", "sc://silent"]


@pytest.mark.parametrize("looks", [health.health, look._slots])
def test_health_is_told_without_asking(looks: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[bool]()

    def slots_in_sight(*_: Any, asking: bool) -> list[CatalogObject]:
        asked.append(asking)
        return []

    for module in (health, look):
        monkeypatch.setattr(module, "slots_in_sight", slots_in_sight)
    monkeypatch.setattr(health, "slot_health", lambda *_: [])
    monkeypatch.setattr(health, "source_health", lambda *_: [])
    monkeypatch.setattr(health, "queues", lambda *_: [])
    looks(None, (), *([()] if looks is look._slots else []))
    assert asked == [False]


@pytest.mark.parametrize(
    ("connection", "kind", "message"),
    [
        ("", InvalidStatement, "names no publisher"),
        ("database=", InvalidStatement, "names no publisher"),
        ("dbname=d", InvalidStatement, "names no publisher"),
        ("database=d user=u", InvalidStatement, "names no publisher"),
        ("database=a.b.c", InvalidStatement, "is no schema"),
        ("warehouse=wh", InvalidStatement, "no absolute path"),
        ("warehouse=/wh database=c.d", InvalidStatement, "no schema of a warehouse"),
        ("warehouse='/wh", InvalidStatement, "No closing quotation"),
        ("host=there port=1", InvalidStatement, "names no publisher"),
        ("remote=sc://there warehouse=/wh", InvalidStatement, "names no publisher"),
        ("database=d token_file=/t", InvalidStatement, "names no publisher"),
        ("remote=there database=d", InvalidStatement, "no address of a server"),
        ("remote=sc://there:1/;token=secret database=d", InvalidStatement, "a token in the connection could be read"),
        ("remote=sc://there:1 token_file=/nowhere/t", InvalidStatement, "there is no file /nowhere/t"),
    ],
)
def test_what_is_no_connection(connection: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        publisher_of(connection, "c")


def test_a_truncation_is_a_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "transaction", lambda *_: None)
    monkeypatch.setattr(apply, "state", lambda *_: TableState("/u", "mine", 0, {}, "", (), None))
    commits = tuple(commit(n, operation) for n, operation in enumerate(["WRITE", "UPDATE", "TRUNCATE", "TRUNCATE", "DELETE"], 1))
    relation = SubscribedTable.new("t", "id", "mine", 0)
    table = apply.AppliedTable(
        cast(SparkSession, None), source("insert"), Located(("t",), "delta", "/u"), relation, foreign_only=True
    )
    assert [[each.version for each in part] for part in table._parts(commits)] == [[1, 2], [3], [4], [5]]
    assert [list(table._parts(()))] == [[]]
    ours = commit(1, "MERGE", transactions=(f"{APPLICATIONS}x",))
    assert (table._is_left_out(ours), table._is_left_out(commits[0])) == (True, False)


ALL = "insert update delete"


@pytest.mark.parametrize(
    ("table", "commits", "how"),
    [
        (source(ALL, full=True), (commit(1, "WRITE"), commit(2, "WRITE")), "append"),
        (source(ALL, full=True), (commit(1, "WRITE"), commit(2, "WRITE", removes_rows=True)), "replace"),
        (source(ALL, full=True), (commit(1, "RESTORE"),), "replace"),
        (source(ALL, full=True), (commit(1, "MERGE"),), "replace"),
        (source("insert"), (commit(1, "WRITE"), commit(2, "UPDATE")), "append"),
        (source("insert", full=True), (commit(1, "DELETE", transactions=(APPLICATIONS,)), commit(2, "WRITE")), "append"),
    ],
)
def test_only_rows_that_came_are_appended(
    monkeypatch: pytest.MonkeyPatch, table: SourceTable, commits: tuple[CommitSummary, ...], how: str
) -> None:
    called = list[str]()
    opened = SimpleNamespace(schema=None, append=lambda *_: called.append("append"), replace=lambda *_: called.append("replace"))
    monkeypatch.setattr(apply, "transaction", lambda *_: None)
    monkeypatch.setattr(apply, "state", lambda *_: TableState("/u", "mine", 0, {}, "", (), None))
    monkeypatch.setattr(apply, "Writer", lambda *_: opened)
    monkeypatch.setattr(operations, "weighted", lambda *_: None)
    located, relation = Located(("t",), "delta", "/u"), SubscribedTable.new("t", "id", "mine", 0)
    apply.AppliedTable(cast(SparkSession, None), table, located, relation, foreign_only=True)._step(commits)
    assert called == [how]


@pytest.mark.parametrize(
    ("table", "operation", "message"),
    [
        (source(ALL), "UPDATE", r"has no replica identity and publishes updates or deletes, as version 2 \(UPDATE\) did"),
        (source("insert delete"), "DELETE", "no replica identity"),
        (source("insert"), "MERGE", "insert cannot be told from the rest"),
        (source("insert delete", full=True), "MERGE", "insert and delete cannot be told"),
        (source("insert delete", full=True), "WRITE", "insert and delete cannot be told"),
    ],
)
def test_what_cannot_be_sent_without_a_key(table: SourceTable, operation: str, message: str) -> None:
    with pytest.raises(InvalidStatement, match=message):
        apply._sent_as(table, commit(2, operation, removes_rows=True))


def test_changes_with_different_conditions_have_to_be_told_apart() -> None:
    table = source("insert", full=True)
    both = (*table.publications, Published(("c", "s", "t"), "/t", "id", "q", (), "a > 1", ("update", "delete")))
    table = replace(table, publications=both)
    assert [apply._sent_as(table, commit(1, each)) for each in ("WRITE", "UPDATE", "DELETE")] == ["insert", "update", "delete"]
    with pytest.raises(InvalidStatement, match="insert and update and delete cannot be told"):
        apply._sent_as(table, commit(1, "MERGE"))
    assert [table.conditions(each) for each in ("insert", "update")] == [{"true"}, {"a > 1"}]


@pytest.mark.parametrize(
    ("table", "operation", "kind"),
    [
        (source(ALL, full=True), "MERGE", "insert"),
        (source(ALL, full=True), "UPDATE", "update"),
        (source("insert delete", full=True), "DELETE", "delete"),
        (source("insert delete", full=True), "UPDATE", None),
        (source("insert update", full=True), "DELETE", None),
        (source("delete", full=True), "WRITE", None),
        (source(ALL), "WRITE", "insert"),
        (source("insert"), "UPDATE", None),
        (source("insert"), "DELETE", None),
        (source("insert update"), "DELETE", None),
        (source("truncate"), "MERGE", None),
    ],
)
def test_how_commits_are_read_without_a_key(table: SourceTable, operation: str, kind: str | None) -> None:
    assert apply._sent_as(table, commit(1, operation)) == kind


@pytest.mark.parametrize(
    ("operation", "counts", "expected"),
    [
        ("UPDATE", (None, None, None), "update"),
        ("DELETE", (None, None, None), "delete"),
        ("MERGE", ("0", "5", "0"), "update"),
        ("MERGE", ("0", "0", "5"), "delete"),
        ("MERGE", ("5", "0", "0"), "insert"),
        ("MERGE", ("1", "5", "0"), None),
        ("MERGE", ("0", "1", "1"), None),
        ("MERGE", (None, None, None), None),
        ("RESTORE", (None, None, None), None),
    ],
)
def test_of_which_kind_a_commit_is(operation: str, counts: tuple[str | None, ...], expected: str | None) -> None:
    named = zip(("Inserted", "Updated", "Deleted"), counts, strict=True)
    metrics = {f"numTargetRows{kind}": count for kind, count in named if count is not None}
    assert apply._kind(commit(1, operation, metrics=metrics, removes_rows=True)) == expected


@pytest.mark.parametrize(
    ("state", "left", "status"),
    [
        (SourceState.OK, None, "reserved"),
        (SourceState.OK, timedelta(days=9), "reserved"),
        (SourceState.EXPIRING, timedelta(days=1), "extended"),
        (SourceState.EXPIRING, -timedelta(days=1), "unreserved"),
        (SourceState.LOST, None, "lost"),
        (SourceState.GONE, None, "lost"),
        (SourceState.RECREATED, None, "lost"),
    ],
)
def test_the_status_of_a_slot(state: SourceState, left: timedelta | None, status: str) -> None:
    until = None if left is None else NOW + left
    assert _status(Health("slot", "t", "/t", state, history_until=until), NOW) == status


@pytest.mark.parametrize("name", ["../other.db/goods", "..", "", "goods/../../x"])
def test_a_publication_had_its_subscribers_read_a_folder_elsewhere(name: str) -> None:
    with pytest.raises(InvalidStatement, match="is no name of a table in /wh"):
        Folder("/wh").name(name)
