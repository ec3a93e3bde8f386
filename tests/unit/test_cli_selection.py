"""Which stream tables `refresh` and `--schema` are about, and which options exclude each other. A fake answers for Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException
from pyspark.sql import Row
from typer.testing import CliRunner

from streamtable.api.answers import Listed
from streamtable.errors import SourceUnavailable
from streamtable.hosts.cli import options
from streamtable.hosts.cli.app import app, watched_at
from streamtable.hosts.cli.parameters import Parameter, parameters_of

TABLES = {  # status, seconds of staleness, sources
    "c.shop.large": ("ACTIVE", 0.0, ["c.shop.sales"]),
    "c.shop.total": ("ACTIVE", 0.0, ["c.shop.large"]),
    "c.shop.old": ("SUSPENDED", 60.0, ["c.shop.sales"]),
    "c.shop.empty": ("ACTIVE", None, ["c.shop.sales"]),
    "c.annex.late": ("ACTIVE", 5.0, ["c.shop.sales"]),
    "c.annex.of_late": ("ACTIVE", 0.0, ["c.annex.late"]),
}
OBJECTS = {"subscriptions()": ["c.shop.sub"], "publications()": ["c.shop.pub"], "stream_tables()": ["c.shop.large", "c.shop.total"]}


class Spark:
    """Answers the statements of the commands, and keeps them."""

    def __init__(self) -> None:
        self.asked = list[str]()
        self.args = list[dict[str, Any] | None]()

    def sql(self, text: str, args: dict[str, Any] | None = None) -> SimpleNamespace:
        self.asked.append(text)
        self.args.append(args)
        rows = list(self._rows(text, args))
        return SimpleNamespace(collect=lambda: rows, take=lambda n: rows[:n], columns=list(rows[0].asDict()) if rows else [])

    def _rows(self, text: str, args: dict[str, Any] | None) -> Iterator[Row]:
        match text.split():
            case ["SELECT", "name", "FROM", function, *_] if function in OBJECTS:
                yield from (Row(name=name) for name in OBJECTS[function])
            case ["SELECT", "DISTINCT", "slot", *_]:
                yield Row(slot="c.shop.s")
            case ["SHOW", "DATABASES", "IN", "spark_catalog"]:
                yield from (Row(namespace="shop"), Row(namespace="`an``nex`"))  # Spark quotes what needs quotes
            case ["SHOW", "QUEUES", "IN", "`spark_catalog`.`shop`"]:
                yield Row(name="c.shop.q", statement="CREATE QUEUE")
            case ["DROP", "SUBSCRIPTION", *_]:
                raise AnalysisException(message="the publisher does not answer", errorClass="X", messageParameters={})
            case ["SELECT", "name,", *_]:
                for name, (status, staleness, _) in sorted(TABLES.items()):
                    why = "its folder is gone" if status == "UNREADABLE" else None
                    yield Row(name=name, status=status, version=None if why else 1, staleness_seconds=staleness, error=why)
            case ["SHOW", "STREAM", "TABLE", "DEPENDENCIES"]:
                for name, (_, _, sources) in TABLES.items():
                    for source in sources:
                        yield Row(name=name, source=source, kind="stream table" if source in TABLES else "table", columns=None)
            case ["DESCRIBE", "SCHEMA", name] if name not in ("`shop`", "`c`.`annex`", "`SHOP`"):
                raise AnalysisException(message=f"[SCHEMA_NOT_FOUND] {name}", errorClass="SCHEMA_NOT_FOUND", messageParameters={})
            case ["SELECT", "*", "FROM", "stream_tables()", *_]:
                known = dict.fromkeys(Listed.__dataclass_fields__)
                yield from (Row(**{**known, "name": name, "status": status}) for name, (status, *_) in sorted(TABLES.items()))
            case ["VERIFY", "STREAM", "TABLE", quoted]:
                status, missing, _ = TABLES[name := quoted.replace("`", "")]
                if status == "UNREADABLE":
                    raise SourceUnavailable(f"there is no Delta table where {name} was")
                if status == "GONE":
                    raise Py4JNetworkError("Answer from Java side is empty")
                yield Row(name=name, ok=not missing, missing=missing, surplus=0)
            case ["REFRESH", "STREAM", "TABLE", *names]:
                for name in (each.strip(",").replace("`", "") for each in names if each not in ("FULL", "CASCADE")):
                    yield Row(name=name, action="FULL", reason="", rows_inserted=0, rows_deleted=0, duration_ms=1, version=2)
            case ["SELECT", "try_cast(:value", *_]:
                assert args
                yield Row(value=None if args["value"] == "x" else f"cast {args['value']}")


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    answering = Spark()

    @contextmanager
    def opened(remote: str | None, conf: dict[str, str]) -> Iterator[Spark]:
        yield answering

    monkeypatch.setattr(options, "opened", opened)
    return answering


def asked(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.mark.parametrize(
    ("arguments", "refreshed", "skipped"),
    [
        (["total", "shop.large"], ["total", "shop.large"], []),
        (["--all"], ["c.annex.late", "c.annex.of_late", "c.shop.empty", "c.shop.large", "c.shop.total"], ["c.shop.old"]),
        (["--stale"], ["c.annex.late", "c.annex.of_late", "c.shop.empty"], ["c.shop.old"]),
        (["--all", "--schema", "SHOP"], ["c.shop.empty", "c.shop.large", "c.shop.total"], ["c.shop.old"]),
        (["--stale", "-s", "c.annex"], ["c.annex.late", "c.annex.of_late"], []),
        (["--stale", "-s", "c.annex", "-s", "shop"], ["c.annex.late", "c.annex.of_late", "c.shop.empty"], ["c.shop.old"]),
    ],
)
def test_what_a_refresh_refreshes(spark: Spark, arguments: list[str], refreshed: list[str], skipped: list[str]) -> None:
    told = json.loads(asked("refresh", *arguments, "--json").stdout)
    assert [(row["name"], row["action"]) for row in told] == [
        *((each, "FULL") for each in refreshed),
        *((each, "SKIPPED") for each in skipped),
    ]
    quoted = ", ".join(".".join(f"`{part}`" for part in each.split(".")) for each in refreshed)
    assert [each for each in spark.asked if each.startswith("REFRESH")] == [f"REFRESH STREAM TABLE {quoted}"]


@pytest.mark.parametrize("which", ["--all", "--stale"])
def test_names_that_need_quotes_are_refreshed_and_tables_that_nobody_can_read_are_skipped(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    monkeypatch.setitem(TABLES, "c.2024.as", ("ACTIVE", None, []))
    monkeypatch.setitem(TABLES, "c.2024.per day", ("ACTIVE", 9.0, []))
    monkeypatch.setitem(TABLES, "c.2024.gone", ("UNREADABLE", None, []))
    told = {row["name"]: row for row in json.loads(asked("refresh", which, "--json").stdout)}
    (refresh,) = (each for each in spark.asked if each.startswith("REFRESH"))
    assert "`c`.`2024`.`as`, `c`.`2024`.`per day`, " in refresh and "gone" not in refresh
    gone = told["c.2024.gone"]
    assert (gone["action"], gone["reason"], gone["version"]) == ("SKIPPED", "its folder is gone", None)


def test_uninstall_shows_what_it_would_drop_and_goes_on_where_something_stays(spark: Spark) -> None:
    shown = asked("uninstall")
    assert "DROP STREAM TABLE IF EXISTS `c`.`shop`.`large` CASCADE" in " ".join(shown.stdout.split())
    assert "--yes" in shown.stderr
    assert not any(each.startswith("DROP") for each in spark.asked)
    assert "SHOW QUEUES IN `spark_catalog`.`an``nex`" in spark.asked
    (slots,) = (each for each in spark.asked if "replication_slots()" in each)
    assert "NOT LIKE '%/%'" in slots
    told = json.loads(asked("uninstall", "--yes", "--json", code=1).stdout)
    assert [(row["kind"], row["name"]) for row in told] == [
        ("subscription", "c.shop.sub"),
        ("publication", "c.shop.pub"),
        ("replication slot", "c.shop.s"),
        ("queue", "c.shop.q"),
        ("stream table", "c.shop.large"),
        ("stream table", "c.shop.total"),
    ]
    assert "does not answer" in told[0]["status"]
    assert {row["status"] for row in told[1:]} == {"DROPPED"}
    assert [each.split(" IF EXISTS ")[0] for each in spark.asked if each.startswith("DROP")] == [
        "DROP SUBSCRIPTION",
        "DROP PUBLICATION",
        "DROP REPLICATION SLOT",
        "DROP QUEUE",
        "DROP STREAM TABLE",
        "DROP STREAM TABLE",
    ]


def test_uninstall_ends_with_its_session(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = spark._rows

    def gone(text: str, args: dict[str, Any] | None) -> Iterator[Row]:
        if text.startswith("DROP"):
            raise AnalysisException(message="", errorClass="INVALID_HANDLE.SESSION_CLOSED", messageParameters={})
        return answers(text, args)

    monkeypatch.setattr(spark, "_rows", gone)
    assert "does not answer" in asked("uninstall", "--yes", code=3).stderr
    assert len([each for each in spark.asked if each.startswith("DROP")]) == 1


@pytest.mark.parametrize(
    ("second", "arguments", "code", "told"),
    [
        (("UNREADABLE", 0, []), [], 1, ["c.shop.first", "c.shop.third"]),
        (("UNREADABLE", 0, []), ["c.shop.second", "c.shop.third"], 1, ["c.shop.third"]),
        (("ACTIVE", 0, []), [], 0, ["c.shop.first", "c.shop.second", "c.shop.third"]),
        (("GONE", 0, []), [], 3, []),
    ],
)
def test_verify_goes_on_after_a_table_that_cannot_be_compared(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, second: Any, arguments: list[str], code: int, told: list[str]
) -> None:
    tables = {"c.shop.first": ("ACTIVE", 0, []), "c.shop.second": second, "c.shop.third": ("ACTIVE", 0, [])}
    monkeypatch.setattr(sys.modules[__name__], "TABLES", tables)
    done = asked("verify", *arguments, "--json", code=code)
    assert [row["name"] for row in json.loads(done.stdout or "[]")] == told
    if code == 1:
        error = json.loads(done.stderr)["error"]
        assert error["condition"] == "STREAMTABLE_SOURCE_UNAVAILABLE" and "second" in error["at"]
        tables["c.shop.third"] = ("ACTIVE", 2, [])
        asked("verify", *arguments, "--json", code=4)


def test_a_refresh_of_nothing_says_so(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "c.annex.late", ("ACTIVE", 0.0, []))
    done = asked("refresh", "--stale", "--schema", "c.annex")
    assert "no stream table is stale" in done.stderr and done.stdout == ""
    assert not any(each.startswith("REFRESH") for each in spark.asked)
    assert asked("refresh", "--stale", "--schema", "c.annex", "--json").stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["refresh"],
        ["refresh", "a", "--all"],
        ["refresh", "--all", "--stale"],
        ["refresh", "a", "--schema", "shop"],
        ["verify", "a", "--schema", "shop"],
        ["history", "a", "--schema", "shop"],
        ["run", "-e", "SELECT :a", "-p", "b=1"],
        ["run", "-e", "SELECT :a", "-p", "a"],
        ["run", "-e", "SELECT :a", "-p", "1a=1"],
        ["run", "-e", "SELECT :a", "-p", "a=1", "-p", "a=2"],
        ["run", "-e", "SELECT :a", "-p", "a:nothing=1"],
        ["run", "-e", "SELECT :a", "-p", "a:decimal=1"],
    ],
)
def test_wrong_use_is_told_before_a_session_is_opened(spark: Spark, arguments: list[str]) -> None:
    asked(*arguments, code=2)
    assert spark.asked == []


def test_a_schema_that_is_not_there_is_an_error(spark: Spark) -> None:
    assert "SCHEMA_NOT_FOUND" in asked("refresh", "--all", "--schema", "nowhere", code=1).stderr


def test_parameters_are_texts_unless_a_type_is_said() -> None:
    given = ["code=007", "day:date=2026-01-05", "n:INT=-3", "m:decimal(10,2)=1.50", "text=a=b:c", "empty="]
    assert parameters_of(given) == {
        "code": Parameter("007", None),
        "day": Parameter("2026-01-05", "DATE"),
        "n": Parameter("-3", "BIGINT"),
        "m": Parameter("1.50", "DECIMAL(10,2)"),
        "text": Parameter("a=b:c", None),
        "empty": Parameter("", None),
    }


def test_a_statement_gets_the_parameters_that_it_has(spark: Spark) -> None:
    asked("run", "-e", "SELECT 1; SELECT :a, ':b'; SELECT :b, :a", "-p", "a=7", "-p", "b:int=8")
    statements = dict(zip(spark.asked, spark.args, strict=True))
    assert statements["SELECT try_cast(:value AS BIGINT)"] == {"value": "8"}
    assert statements["SELECT 1"] is None
    assert statements["SELECT :a, ':b'"] == {"a": "7"}
    assert statements["SELECT :b, :a"] == {"a": "7", "b": "cast 8"}


def test_a_value_that_is_not_of_its_type_is_an_error(spark: Spark) -> None:
    failed = asked("run", "-e", "SELECT :a", "-p", "a:date=x", code=1)
    assert "the value of :a is no DATE: x" in failed.stderr and "SELECT :a" not in spark.asked


def test_watching_shows_its_time() -> None:
    assert watched_at(datetime(2026, 1, 5, 12, 30, tzinfo=timezone.utc), 2.0) == "every 2 s, last at 2026-01-05 12:30:00 UTC"
