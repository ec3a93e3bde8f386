"""The command line over the session of the tests: what it prints, and its exit codes."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from streamtable.api.tables import StreamTables
from streamtable.errors import NotEnabled
from streamtable.hosts import start
from streamtable.hosts.cli import doctor, options, sessions, shell
from streamtable.hosts.cli.app import app
from streamtable.hosts.cli.backslash import Backslash
from streamtable.hosts.cli.completion import Completions
from streamtable.hosts.cli.output import Printer
from streamtable.hosts.cli.shell import banner, completions
from streamtable.sessions import remote


@pytest.fixture
def command(shop: SparkSession, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    @contextmanager
    def opened(remote: str | None, conf: dict[str, str]) -> Iterator[SparkSession]:
        if remote:
            raise NotEnabled("nobody answers", hint="start it")
        sessions.silence()  # as sessions.opened does; the loggers write to the stderr that there was when they were made
        yield shop

    monkeypatch.setattr(options, "opened", opened)
    return CliRunner()


def asked(command: CliRunner, *arguments: str, code: int = 0, text: str | None = None) -> Any:
    done = command.invoke(app, list(arguments), input=text)
    assert done.exit_code == code, (arguments, done.output, done.exception)
    return done


def told(command: CliRunner, *arguments: str) -> Any:
    return json.loads(asked(command, *arguments, "--json").stdout)


def test_a_day_at_the_command_line(command: CliRunner, shop: SparkSession, tmp_path: Path) -> None:
    script = tmp_path / "notebook.sql"
    script.write_text(
        "-- Databricks notebook source\nCREATE STREAM TABLE large SCHEDULE '5m' AS SELECT * FROM sales WHERE amount > 15\n"
        "-- COMMAND ----------\nCREATE STREAM TABLE total AS SELECT sum(amount) AS total FROM large;\nSELECT DATE '2026-01-05' AS d, 1.50 AS m, id FROM sales\n"
    )
    done = asked(command, "run", str(script), "--limit", "2")
    assert "2026-01-05" in done.stdout and "REINITIALIZE" in done.stdout
    assert "only the first 2 rows" in done.stderr
    assert told(command, "run", "-e", "SELECT DATE '2026-01-05' AS d, 1.50 AS m, X'01' AS b, NULL AS n, map('k', 1) AS k") == [
        {"d": "2026-01-05", "m": "1.50", "b": "01", "n": None, "k": {"k": 1}}
    ]
    nested = (
        "named_struct('id', 1, 'at', DATE '2026-01-05') AS s, map(DATE '2026-01-05', 1.50) AS k, array(double('-Infinity')) AS f"
    )
    assert told(command, "run", "-e", f"SELECT {nested}") == [
        {"s": {"id": 1, "at": "2026-01-05"}, "k": {"2026-01-05": "1.50"}, "f": ["-Infinity"]}
    ]
    assert "│" not in asked(command, "run", "-", text="SELECT 'from the input' AS a").stdout

    assert [(each["name"], each["schedule"]) for each in told(command, "status") if ".shop." in each["name"]] == [
        ("spark_catalog.shop.large", "'5m'"),
        ("spark_catalog.shop.total", "MANUAL"),
    ]
    shop.sql("INSERT INTO sales VALUES (9, 'west', 90)")
    (refreshed,) = told(command, "refresh", "total", "--cascade")
    assert (refreshed["action"], refreshed["rows_inserted"]) == ("DIFFERENTIAL", 1)
    assert [past["action"] for past in told(command, "history", "total")] == ["DIFFERENTIAL", "REINITIALIZE"]
    assert "Aggregate" in asked(command, "explain", "total").stdout
    assert [verdict["ok"] for verdict in told(command, "verify", "large", "total")] == [True, True]
    assert "shop.total" in (drawn := asked(command, "graph").stdout) and "spark_catalog" not in drawn
    assert (
        re.search(r"^shop\.total +fresh ", (shown := asked(command, "status").stdout), re.MULTILINE)
        and "spark_catalog" not in shown
    )
    assert asked(command, "graph", "--format", "svg").stdout.startswith("<svg")
    assert "total" in completions(shop) and "STREAM" in completions(shop)

    zone = shop.conf.get("spark.sql.session.timeZone")
    for sql in (
        "CREATE DATABASE annex",
        "SET spark.sql.session.timeZone = Asia/Tokyo",
        "CREATE STREAM TABLE annex.zones AS SELECT total, current_timezone() AS zone FROM total",
        "SET spark.sql.session.timeZone = Europe/Berlin",
        "CREATE STREAM TABLE annex.later AS SELECT total, current_timezone() AS zone FROM total",
        f"SET spark.sql.session.timeZone = {zone}",
        "ALTER STREAM TABLE large SUSPEND",
    ):
        shop.sql(sql)
    exported = tmp_path / "exported.sql"
    shop.conf.set("spark.sql.session.timeZone", "Europe/Berlin")  # as on a machine whose zone this is
    exported.write_text(asked(command, "export").stdout)
    shop.conf.set("spark.sql.session.timeZone", str(zone))
    for sql in ("DROP STREAM TABLE large CASCADE", "DROP DATABASE annex", "USE default"):
        shop.sql(sql)
    asked(command, "import", str(exported))
    assert shop.catalog.currentDatabase() == "shop" and shop.conf.get("spark.sql.session.timeZone") == zone
    assert shop.sql("SELECT * FROM annex.zones").collect() == [(160, "Asia/Tokyo")]
    assert shop.sql("SELECT * FROM annex.later").collect() == [(160, "Europe/Berlin")]
    states = {each["name"].rpartition(".")[2]: each["status"] for each in told(command, "status")}
    assert (states["large"], states["total"]) == ("SUSPENDED", "ACTIVE")
    shop.sql("DROP DATABASE annex CASCADE")


def test_several_tables_are_refreshed_and_statements_have_parameters(command: CliRunner, shop: SparkSession) -> None:
    script = (
        "CREATE STREAM TABLE large AS SELECT * FROM sales WHERE amount > :least;"
        "CREATE STREAM TABLE of_region AS SELECT id FROM large WHERE region = :region"
    )
    assert len(asked(command, "run", "-e", script, "-p", "least:int=15", "-p", "region=west", "--json").stdout.splitlines()) == 2
    shop.sql("INSERT INTO sales VALUES (9, 'west', 90)")

    def refreshed(*arguments: str) -> list[tuple[str, str]]:
        return [(row["name"].rpartition(".")[2], row["action"]) for row in told(command, "refresh", *arguments)]

    assert refreshed("--stale", "--schema", "shop") == [("large", "DIFFERENTIAL"), ("of_region", "DIFFERENTIAL")]
    assert refreshed("--stale", "--schema", "spark_catalog.shop") == []
    assert refreshed("of_region", "large", "--full") == [("of_region", "FULL"), ("large", "FULL")]
    shop.sql("ALTER STREAM TABLE large SUSPEND")
    assert refreshed("--all", "--schema", "shop") == [("of_region", "NO_DATA"), ("large", "SKIPPED")]
    assert [each["ok"] for each in told(command, "verify", "--schema", "shop")] == [True, True]
    assert [each["name"] for each in told(command, "status", "--schema", "SHOP")] == [
        "spark_catalog.shop.large",
        "spark_catalog.shop.of_region",
    ]
    assert "SCHEMA_NOT_FOUND" in asked(command, "status", "--schema", "nowhere", code=1).stderr

    typed = "SELECT :text AS a, :day AS b, :at AS c, :n AS d, :m AS e, :yes AS f, ':no' AS g FROM of_region WHERE id = :n"
    values = (
        "text=o'; --",
        "day:date=2026-01-05",
        "at:timestamp=2026-01-05 12:30:00",
        "n:int=9",
        "m:decimal(5,2)=1.50",
        "yes:boolean=true",
    )
    assert told(command, "run", "-e", typed, *(part for each in values for part in ("-p", each))) == [
        {"a": "o'; --", "b": "2026-01-05", "c": "2026-01-05T12:30:00", "d": 9, "e": "1.50", "f": True, "g": ":no"}
    ]
    assert "no DATE: someday" in asked(command, "run", "-e", "SELECT :a", "-p", "a:date=someday", code=1).stderr


def test_the_shell_knows_what_the_catalog_holds(shop: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    shop.sql("CREATE STREAM TABLE large AS SELECT * FROM sales WHERE amount > 15")
    shop.sql("CREATE VIEW seen AS SELECT id FROM sales")
    backslash = Backslash(shop, Printer(as_json=True))
    for text in ("\\d", "\\dt shop", "\\d shop.large", "\\d seen", "\\q"):
        assert backslash.run(text) is (text != "\\q")
    relations, tables, columns, stream, of_view = map(json.loads, capsys.readouterr().out.splitlines())
    kinds = {each["name"]: each["kind"] for each in relations}
    assert kinds == {"sales": "table", "large": "stream table", "seen": "view"} | kinds  # and what other tests left
    assert {"name": "large", "kind": "stream table"} in tables and not any(each["kind"] == "view" for each in tables)
    assert [each["col_name"] for each in columns[:3]] == ["id", "region", "amount"]
    assert {"property": "status", "value": "ACTIVE"} in stream and [each["col_name"] for each in of_view] == ["id"]

    def offered(text: str) -> set[str]:
        return {each.text for each in Completions(shop).get_completions(Document(text), CompleteEvent())}

    assert "shop.large" in offered("SELECT * FROM shop.la") and "amount" in offered("SELECT * FROM shop.large WHERE am")
    assert shop.version in banner(shop, None)
    shop.sql("DROP VIEW seen")


ENDINGS = {
    "`order`": "",
    "`select`": "-- it's; a comment",
    "`from`": "-- it goes on\\",
    "`where`": "-- COMMAND ----------",
    "`group`": "/* ; */ -- MAGIC %python",
}


def test_an_export_is_imported_whatever_the_definitions_hold(command: CliRunner, shop: SparkSession, tmp_path: Path) -> None:
    nasty = "it's; -- \\ /* \r\n `\"\u2028 ; DROP TABLE sales; --"
    tables = StreamTables(shop)
    for name, ending in ENDINGS.items():
        query = f"SELECT id, region AS `sel``ect`, r'\\;' AS x, ';-- /*' AS y FROM sales {ending}"
        tables.create(name, query, comment=nasty, properties={nasty: nasty, "a": nasty}, columns=dict.fromkeys("abcd", nasty))
    tables.create("last", "SELECT a FROM `order`", schedule="CRON '0 5 * * *' AT TIME ZONE 'Europe/Berlin'")

    def look() -> dict[str, Any]:
        definitions = {name: tables.get(name).show_create().partition(ending or ";;;")[0] for name, ending in ENDINGS.items()}
        return {name: (sorted(shop.table(name).collect()), text.rstrip()) for name, text in definitions.items()}

    before = look()
    exported = tmp_path / "exported.sql"
    exported.write_text(asked(command, "export").stdout)
    for name in ENDINGS:
        shop.sql(f"DROP STREAM TABLE {name} CASCADE")
    asked(command, "import", str(exported))
    assert look() == before
    names = sorted(f"spark_catalog.shop.{name.strip('`')}" for name in (*ENDINGS, "last"))
    assert sorted(each.name for each in tables.list("shop")) == names
    assert shop.table("sales").count() == 4


def test_changes_are_printed_as_they_come(command: CliRunner, shop: SparkSession) -> None:
    now = shop.sql("DESCRIBE HISTORY sales LIMIT 1").collect()[0]["version"]
    bounds = f"AS OF {now} UP TO {now + 1}"
    lines = asked(command, "subscribe", f"sales {bounds}", "--format", "json").stdout.splitlines()
    assert {"timestamp": now, "diff": 2, "id": 2, "region": "south", "amount": 20} in map(json.loads, lines)
    keyed = f"(SELECT id, region FROM sales WHERE id = 1) {bounds} ENVELOPE DEBEZIUM (KEY (id))"
    (event,) = map(json.loads, asked(command, "subscribe", keyed, "-f", "debezium").stdout.splitlines())
    assert (event["op"], event["before"], event["after"]) == ("c", None, {"id": 1, "region": "north"})
    assert asked(command, "subscribe", f"sales {bounds}", "--json").stdout.splitlines() == lines
    assert "south" in asked(command, "subscribe", f"sales {bounds}").stdout
    assert "TABLE_OR_VIEW_NOT_FOUND" in asked(command, "subscribe", "nothing", code=1).stderr


def test_exit_codes(command: CliRunner) -> None:
    failed = asked(command, "run", "-e", "SELECT 1;\n\nREFRESH STREAM TABLE nobody; SELECT 2", code=1)
    assert "line 3: [STREAMTABLE_NOT_FOUND]" in failed.stderr and "2" not in failed.stdout
    failed = asked(command, "refresh", "nobody", "--json", code=1)
    error = json.loads(failed.stderr)["error"]
    assert (error["condition"], error["sqlstate"]) == ("STREAMTABLE_NOT_FOUND", "42P01")
    assert json.loads(asked(command, "run", "-e", "SELECT nothing", "--json", code=1).stderr)["error"]["sqlstate"] == "42703"
    assert "JVM stacktrace" not in failed.stderr
    asked(command, "run", code=2)
    asked(command, "run", "no such file", code=2)
    asked(command, "status", "--conf", "spark.a", code=2)
    asked(command, "sql", code=2)
    assert "nobody answers" in asked(command, "status", "--remote", "sc://localhost:1", code=3).stderr


def test_an_error_that_pyspark_has_no_class_for_is_told_like_others(
    command: CliRunner, shop: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "torn"
    shop.sql("SELECT 1 AS id").write.format("delta").save(str(table))
    for file in table.glob("*.parquet"):
        file.unlink()
    torn = f"SELECT * FROM delta.`{table}`"
    done = asked(command, "run", "-e", f"{torn};\nSELECT 2 AS a", "--json", "--keep-going", code=1)
    error = json.loads(done.stderr)["error"]
    assert (error["condition"], error["sqlstate"], error["at"]) == ("FAILED_READ_FILE.FILE_NOT_EXIST", "KD001", "line 1")
    assert str(table) in error["message"] and "\n\tat " not in error["message"]
    assert json.loads(done.stdout) == [{"a": 2}]

    shell._answer(shop, Printer(as_json=False), torn, 7)  # and the interactive shell goes on
    assert "error: [FAILED_READ_FILE.FILE_NOT_EXIST]" in capsys.readouterr().err
    with pytest.raises(typer.Exit), options.reported(Printer(as_json=True)):
        shop._jvm.java.util.ArrayDeque().getFirst()  # type: ignore[union-attr]
    said = {"condition": None, "sqlstate": None, "message": "java.util.NoSuchElementException"}
    assert json.loads(capsys.readouterr().err) == {"error": said}


def test_watching_prints_a_line_at_each_look_until_an_interrupt(command: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter((True, True, False))

    def sleep(seconds: float) -> None:
        assert seconds == 5
        if not next(looks):
            raise KeyboardInterrupt

    monkeypatch.setattr("streamtable.hosts.cli.app.time", SimpleNamespace(sleep=sleep))
    watched = asked(command, "status", "--watch", "5", "--json", code=130).stdout
    assert [isinstance(json.loads(line), list) for line in watched.splitlines()] == [True, True, True]


def test_a_live_status_is_drawn_over_what_it_showed(
    command: CliRunner, shop: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sql("CREATE STREAM TABLE large AS SELECT * FROM sales WHERE amount > 15")
    changes = iter(("ALTER STREAM TABLE large SUSPEND",))

    def sleep(seconds: float) -> None:
        for sql in changes:
            shop.sql(sql)
            return
        raise KeyboardInterrupt

    monkeypatch.setattr("streamtable.hosts.cli.app.time", SimpleNamespace(sleep=sleep))
    for key, value in {"FORCE_COLOR": "1", "COLUMNS": "200"}.items():  # a terminal, for rich
        monkeypatch.setenv(key, value)
    first, up, second = asked(command, "status", "--watch", "1", code=130).stdout.partition("\x1b[1A")
    assert up and "large" in first and "fresh" in first and "suspended" not in first
    assert "large" in second and "suspended" in second and "fresh" not in second


def test_a_table_that_is_not_exact_is_an_exit_code(command: CliRunner, shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE large AS SELECT * FROM sales WHERE amount > 15")
    shop.sparkContext.setLocalProperty("streamtable.engine", "true")  # as a write behind our back would do
    try:
        shop.sql("DELETE FROM large WHERE amount = 30")
    finally:
        shop.sparkContext.setLocalProperty("streamtable.engine", "false")
    assert '"missing": 1' in asked(command, "verify", "large", "--json", code=4).stdout


def test_all_are_verified_whatever_their_names(command: CliRunner, shop: SparkSession) -> None:
    shop.sql("CREATE STREAM TABLE `2024` AS SELECT id FROM sales")
    shop.sql("CREATE STREAM TABLE `as` AS SELECT id FROM sales")
    shop.sql("CREATE STREAM TABLE three AS SELECT id FROM range(3)")
    assert [row["ok"] for row in told(command, "verify")] == [True, True, True]
    assert {"name": "spark_catalog.shop.three", "source": None, "kind": None} in told(command, "graph"), "it reads no table"
    for name in ("2024", "as", "three"):
        shop.sql(f"DROP STREAM TABLE `{name}`")


def test_init_and_doctor(command: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked(command, "init")
    file = tmp_path / "streamtable.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, "others could read what it will hold"
    asked(command, "init", code=2)
    monkeypatch.setattr(doctor, "opened", vars(options)["opened"])
    assert all(check["ok"] for check in told(command, "doctor"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    sick = asked(command, "doctor", code=3).stdout
    assert f"WRONG  java       none in JAVA_HOME={tmp_path}" in sick and "what to do: install Java" in sick
    assert "session" not in sick  # without Java there is no use in trying


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            RuntimeError("Failed to start database 'metastore_db' with class loader x, see the next exception"),
            "another process uses the catalog",
        ),
        (
            RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited"),
            "Java did not start: [JAVA_GATEWAY_EXITED] Java gateway process exited\nno memory",
        ),
    ],
)
def test_why_no_session_starts(raised: Exception, said: str) -> None:
    assert said in str(start.not_started(raised, "no memory"))


@pytest.mark.parametrize(
    "raised",
    [
        Py4JError("An error occurred while calling o46.sql"),  # the call that was under way
        Py4JNetworkError("Answer from Java side is empty"),
        ConnectionRefusedError(111, "Connection refused"),  # and those after it
    ],
)
def test_a_java_that_is_killed_is_no_session(raised: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Mock(**{"sql.side_effect": raised, "stop.side_effect": ConnectionRefusedError})
    monkeypatch.setattr(sessions, "local", lambda conf: gone)
    told = asked(CliRunner(), "run", "-e", "SELECT 1; SELECT 2", "--keep-going", code=3).stderr
    assert re.findall("line [0-9]+: .*", told) == [
        "line 1: [STREAMTABLE_NOT_ENABLED] Java ended before the statement did; a refresh that was cut off has not happened"
    ]
    with pytest.raises(type(raised)):
        shell._answer(gone, Printer(as_json=False), "SELECT 1", 7)


def test_a_wrong_call_of_java_is_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Py4JError("An error occurred while calling o46.sql. Trace:\npy4j.Py4JException: Method sql([]) does not exist\n")
    monkeypatch.setattr(sessions, "local", lambda conf: Mock(**{"sql.side_effect": wrong}))
    assert CliRunner().invoke(app, ["run", "-e", "SELECT 1"]).exception is wrong


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(NotEnabled, match="nobody answers at sc://localhost:1/"):
        remote.connected("sc://localhost:1/;token=secret")


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (RuntimeError("StatusCode.UNAVAILABLE"), "nobody answers at sc://host:1"),
        (RuntimeError("StatusCode.UNAUTHENTICATED"), "asks for a token"),
        (ImportError("grpc"), r"streamtable[connect]"),
    ],
)
def test_why_no_server_is_reached(raised: Exception, said: str) -> None:
    error = str(remote._not_connected("sc://host:1/;token=secret", raised))
    assert said in error and "secret" not in error
