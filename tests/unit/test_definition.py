"""A definition survives as table properties, and one of a later format is not guessed at."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from streamtable.algebra.operators import Scan
from streamtable.algebra.reading import BoundQuery
from streamtable.algebra.sources import Source
from streamtable.catalog import definition
from streamtable.catalog.definition import (
    ACTIVE,
    FORMAT,
    SUSPENDED,
    Definition,
    Failure,
    Resumed,
    code_of,
    defaults_of,
    over,
    suspended,
)
from streamtable.definitions.checks import check_properties
from streamtable.delta.tables import Version
from streamtable.errors import DefinitionUnreadable, InvalidStatement, NotSupported
from streamtable.language.names import Name, Query
from streamtable.language.parse import parse
from streamtable.language.stream_table.ast import CreateStreamTable, RefreshMode
from streamtable.language.stream_table.schedule import Cron, next_time
from streamtable.language.stream_table.state import StateMode
from streamtable.language.write import to_sql
from streamtable.refresh.frontier import Frontier

STATEMENT = parse("CREATE STREAM TABLE `a b`.t SCHEDULE '5m' COMMENT 'it''s' AS SELECT 1 AS x -- one\n")
assert isinstance(STATEMENT, CreateStreamTable)
SETTINGS = {"spark.sql.session.timeZone": "Europe/Berlin"}
READING = BoundQuery("r", Scan(Source("/w/s", "s"), ()), (Source("/w/s", "s"),), (), ("w",), (), ("f",))
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
RUNNING = Definition(STATEMENT, "id", ("spark_catalog", "a b"), SETTINGS, {"/w/s": "s"}, ACTIVE, None)
STOPPED = Definition(STATEMENT, "id", ("spark_catalog",), {}, {}, SUSPENDED, Failure("no", "STREAMTABLE_X", AT, 3))
RESUMED = replace(RUNNING, resumed=Resumed(7, AT))


@pytest.mark.parametrize("written", [RUNNING, STOPPED, RESUMED])
def test_a_definition_is_read_as_it_was_written(written: Definition) -> None:
    properties = {key: value for key, value in written.properties(READING).items() if value is not None}
    assert Definition.of(properties) == written


def test_the_error_of_a_suspended_table_says_since_when_and_why() -> None:
    by_failures, by_statement = suspended(STOPPED), suspended(replace(STOPPED, error=None))
    assert by_failures.reason == "a b.t is suspended since 2026-01-01 00:00:00+00:00, after 3 failures: no"
    assert by_failures.hint == "put the cause right, then ALTER STREAM TABLE `a b`.`t` RESUME"
    assert by_statement.reason == "a b.t is suspended, by ALTER STREAM TABLE ... SUSPEND"
    assert by_statement.hint == "ALTER STREAM TABLE `a b`.`t` RESUME"


@pytest.mark.parametrize("written", ["0 0 12 ? * 2", "0 0 12 * * 2", "0 12 ? * 2"])
def test_a_stored_schedule_keeps_its_day_of_the_week(written: str) -> None:
    """An expression with a `?` is one of Quartz in a statement, and was ours when earlier releases stored it."""
    text = kept(RUNNING)["streamtable.definition"].replace("SCHEDULE '5m'", f"SCHEDULE CRON '{written}'")
    found = Definition.of(kept(RUNNING, {"streamtable.definition": text}))
    assert found is not None and isinstance(found.statement.schedule, Cron)
    assert next_time(found.statement.schedule, AT).strftime("%A %H") == "Tuesday 12"
    again = Definition.of(kept(found))
    assert again == found and "?" not in to_sql(found.statement)
    said = parse(f"CREATE STREAM TABLE t SCHEDULE CRON '{written}' AS SELECT 1")
    assert isinstance(said, CreateStreamTable) and isinstance(said.schedule, Cron)
    assert next_time(said.schedule, AT).strftime("%A") == ("Monday" if written == "0 0 12 ? * 2" else "Tuesday")


def kept(found: Definition, more: dict[str, str] | None = None) -> dict[str, str]:
    return {key: value for key, value in found.properties(READING).items() if value is not None} | (more or {})


@pytest.mark.parametrize(
    "after",
    [
        kept(RUNNING.with_statement(schedule=Cron("0 3 * * *"))),
        kept(RUNNING.with_statement(mode=RefreshMode.FULL)),
        kept(RUNNING.with_statement(properties=(("team", "north"),)), {"team": "north", "delta.logRetentionDuration": "x"}),
        kept(RUNNING.with_statement(comment="other")),
        kept(RUNNING.with_statement(state=StateMode.NONE)),
        kept(replace(RUNNING, status=SUSPENDED, error=STOPPED.error)),
        kept(RESUMED),
    ],
)
def test_what_says_nothing_of_rows(after: dict[str, str]) -> None:
    assert Definition.same_rows(kept(RUNNING), after) and Definition.same_rows(after, kept(RUNNING))


@pytest.mark.parametrize(
    "after",
    [
        kept(RUNNING.with_statement(query=Query("SELECT 2 AS x"))),
        kept(RUNNING.with_statement(query=Query("SELECT 2 AS x UNION ALL SELECT 1 AS x -- one"))),
        kept(RUNNING.with_statement(name=Name(("spark_catalog", "a b", "u")))),
        kept(replace(RUNNING, id="other")),
        kept(replace(RUNNING, namespace=("spark_catalog", "b"))),
        kept(replace(RUNNING, settings={})),
        kept(replace(RUNNING, sources={"/w/r": "s"})),
        kept(RUNNING, {"streamtable.views": "[]"}),
        kept(RUNNING, {"streamtable.of.a.later.version": "1"}),
        {},
    ],
)
def test_what_says_something_of_rows_or_might(after: dict[str, str]) -> None:
    assert not Definition.same_rows(kept(RUNNING), after) and not Definition.same_rows(after, kept(RUNNING))


def test_what_is_none_and_what_is_of_a_later_format() -> None:
    assert Definition.of({"delta.appendOnly": "true"}) is None
    with pytest.raises(NotSupported, match="format 2"):
        Definition.of({"streamtable.format": "2", "streamtable.definition": "..."})


@pytest.mark.parametrize(
    "damage",
    [
        {"definition": "CREATE STREAM TABLE"},
        {"definition": "DROP STREAM TABLE t"},
        {"definition": None},
        {"settings": "{"},
        {"settings": "[]"},
        {"settings": '{"spark.sql.session.timeZone": 1}'},
        {"namespace": '"shop"'},
        {"sources": "null"},
        {"views": '{"w": 1}'},
        {"functions": "["},
        {"used": "[1]"},
        {"status": None},
        {"status": "PERHAPS"},
        {"error": "[1]"},
        {"error": "[" * 100_000},
        {"error": '{"message": 1, "condition": "c", "at": "2026-01-01T00:00:00+00:00", "failures": 1}'},
        {"resumed": '{"version": 1}'},
        {"resumed": '{"version": 1, "at": "2026-01-01"}'},
        {"resumed": '{"version": 9999999999999999999, "at": "2026-01-01T00:00:00+00:00"}'},
        {"id": None},
    ],
    ids=str,
)
def test_a_damaged_definition_is_an_error_that_names_the_table(damage: dict[str, str | None]) -> None:
    damaged = RUNNING.properties(READING) | {f"streamtable.{key}": value for key, value in damage.items()}
    with pytest.raises(DefinitionUnreadable, match=r"the definition of a b\.t cannot be read"):
        Definition.of({key: value for key, value in damaged.items() if value is not None})


def test_a_cron_table_of_a_zone_that_is_unknown_here_is_unreadable_by_itself() -> None:
    said = "CREATE STREAM TABLE a.b.t SCHEDULE CRON '0 6 * * *' AS SELECT 1 AS x"
    changed = {"streamtable.definition": said, "streamtable.settings": '{"spark.sql.session.timeZone": "Europe/Nowhere"}'}
    with pytest.raises(DefinitionUnreadable, match=r"the definition of a b\.t cannot be read: .*Europe/Nowhere"):
        Definition.of({**dict(RUNNING.properties(READING)), **changed})  # type: ignore[arg-type]


def test_what_runs_is_code_and_how_it_fares_is_not() -> None:
    code = code_of(RUNNING.properties(READING))
    assert code == code_of(RESUMED.properties(READING) | {"delta.appendOnly": "false", "streamtable.error": "x"})
    decides = ("definition", "name", "id", "namespace", "settings", "sources", "views", "functions", "columns", "format")
    assert code.keys() == {f"streamtable.{each}" for each in decides}
    assert code_of({"Delta.Constraints.c": "reflect('a', 'b')"}) != {}


def test_a_table_of_an_earlier_release_stays_accepted_when_a_refresh_adds_its_columns() -> None:
    """Another catalog that accepted it would have to accept it again: the refresh tells one catalog alone."""
    now = kept(RUNNING)
    before = {key: value for key, value in now.items() if key != "streamtable.used"}
    assert before != now and code_of(before) == code_of(now)
    assert Definition.same_rows(before, now)


def test_earlier_formats_are_migrated_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {key: value for key, value in RUNNING.properties(READING).items() if value is not None}
    first = {"streamtable.format": "-1", "streamtable.named": "id", **{key: now[key] for key in now if "format" not in key}}
    del first["streamtable.id"]
    steps = {
        "-1": lambda old: {**old, "streamtable.format": "0", "streamtable.id": old["streamtable.named"].upper()},
        "0": lambda old: {**old, "streamtable.format": FORMAT, "streamtable.id": old["streamtable.id"].lower()},
    }
    with pytest.raises(NotSupported, match="format -1"):
        Definition.of(first)
    monkeypatch.setattr(definition, "MIGRATIONS", steps)
    assert Definition.of(first) == RUNNING


def test_what_the_first_version_wrote_is_read() -> None:
    """Later versions only added what may be missing, so that the format is still the first one."""
    written = {
        "streamtable.format": "1",
        "streamtable.definition": "CREATE STREAM TABLE `spark_catalog`.`a b`.`t`\nSCHEDULE '5m'\nREFRESH MODE AUTO\nAS\nSELECT 1 AS x -- one",
        "streamtable.id": "id",
        "streamtable.namespace": '["spark_catalog", "a b"]',
        "streamtable.settings": '{"spark.sql.session.timeZone": "Europe/Berlin"}',
        "streamtable.sources": '{"/w/s": "s"}',
        "streamtable.status": "ACTIVE",
    }
    read = Definition.of(written)
    assert read is not None
    assert (read.name, read.settings, read.sources, read.error, read.resumed) == (
        "spark_catalog.a b.t",
        SETTINGS,
        {"/w/s": "s"},
        None,
        None,
    )
    named = {"streamtable.name": '["spark_catalog", "a b", "t"]'}  # which tells a copy, since then
    assert read.properties() == {**written, **named, "streamtable.error": None, "streamtable.resumed": None}


def test_a_frontier_of_the_first_version_is_read() -> None:
    written = (
        '{"sources": {"/w/s": {"table_id": "abc", "number": 3}}, "arrangements": {"a2": 2}, "base": 4, "number": 2, '
        '"fingerprint": "0123456789abcdef", "action": "DIFFERENTIAL", "exact": true, "probe": "id"}'
    )
    expected = Frontier({"/w/s": Version("abc", 3)}, {"a2": 2}, 4, 2, "0123456789abcdef", "DIFFERENTIAL", exact=True, probe="id")
    assert Frontier.of(written) == expected
    assert Frontier.of(expected.to_json()) == expected


@pytest.mark.parametrize(
    ("field", "written"),
    [
        ("fingerprint", "../../../../home/victim"),
        ("fingerprint", "."),
        ("fingerprint", "0123456789abcde/"),
        ("fingerprint", "0123456789abcdef\n"),
        ("arrangements", {"../../../victim": 3}),
        ("arrangements", {"a0": 1, "": 3}),
        ("arrangements", {"a\u0660": 3}),
    ],
)
def test_a_frontier_named_a_folder_outside_of_its_table(field: str, written: object) -> None:
    read = Frontier({"/w/s": Version("abc", 3)}, {"a0": 2}, 4, 2, "0123456789abcdef", "FULL", exact=True)
    assert Frontier.of(read.to_json()) == read
    assert Frontier.of(json.dumps({**json.loads(read.to_json()), field: written})) is None


@pytest.mark.parametrize("key", ["option.fs.s3a.endpoint", "fs.file.impl", "DFS.client", "Option.a"])
def test_a_setting_of_storage_is_no_property_of_a_table(key: str) -> None:
    """Delta could take it for one of Hadoop's, for the files of this table."""
    with pytest.raises(InvalidStatement, match="it is a setting of storage") as refused:
        check_properties([("team", "north"), (key, "a.B")])
    assert f"UNSET TBLPROPERTIES ('{key}')" in (refused.value.hint or "")
    check_properties([("team", "fs.file.impl"), ("delta.logRetentionDuration", "interval 40 days"), ("options", "x")])


def test_properties_of_delta_have_no_case_and_those_of_users_have() -> None:
    before, after = {"delta.appendOnly": "true", "Team": "a"}, {"DELTA.APPENDONLY": "false", "team": "b"}
    assert over(before, after) == {"delta.appendOnly": "false", "Team": "a", "team": "b"}
    assert (
        over({}, {"delta.x": "1", "DELTA.X": "2"}) == over({"delta.x": "1", "DELTA.X": "3"}, {"Delta.x": "2"}) == {"delta.x": "2"}
    )
    assert defaults_of(["Delta.enableDeletionVectors", "team"]) == {"Delta.enableDeletionVectors": "true", "team": None}
