"""The interactive shell, typed into as by a terminal: what it sends, what it tells, when it ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import Row

from streamtable.errors import StreamTableNotFound
from streamtable.hosts.cli.backslash import COMMANDS
from streamtable.hosts.cli.completion import Completions
from streamtable.hosts.cli.output import Printer
from streamtable.hosts.cli.shell import HISTORY, banner, completions, interact


class Recording(Printer):
    """Answers nothing but an error about `nobody`."""

    def __init__(self) -> None:
        super().__init__(as_json=False)
        self.asked = list[tuple[str, int]]()
        self.errors = list[str]()
        self.notes = list[str]()
        self.printed = list[tuple[list[str], list[tuple[Any, ...]]]]()

    def note(self, text: str) -> None:
        self.notes.append(text)

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.printed.append((list(columns), [tuple(row) for row in rows]))

    def answer(self, spark: Any, sql: str, limit: int, args: Mapping[str, Any] | None = None) -> None:
        if "nobody" in sql:
            raise StreamTableNotFound("there is no stream table nobody")
        self.asked.append((sql, limit))

    def error(self, error: BaseException, at: str | None = None) -> None:
        self.errors.append(str(error))


def typed(text: str, spark: Any = None) -> Recording:
    recording = Recording()
    with create_pipe_input() as terminal, create_app_session(input=terminal, output=DummyOutput()):
        terminal.send_text(text)
        interact(spark, recording, 7)
    return recording


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_statement_over_two_lines_then_an_error_then_the_end(home: Path) -> None:
    said = typed("SELECT 1 AS a,\r2 AS b;\rREFRESH STREAM TABLE nobody; SELECT 3;\rSELECT 4;\rexit\rSELECT 5;\r")
    assert said.asked == [("SELECT 1 AS a,\n2 AS b", 7), ("SELECT 4", 7)]  # an error ends its line, not the shell
    assert [each.partition("]")[0] for each in said.errors] == ["[STREAMTABLE_NOT_FOUND"]
    history = (home / HISTORY.name).read_text(encoding="utf-8")
    assert "+SELECT 1 AS a,\n+2 AS b;\n" in history and "+SELECT 4;\n" in history


def test_the_history_can_be_read_by_its_owner_alone(home: Path) -> None:
    history = home / HISTORY.name
    for _ in range(2):
        typed("SELECT 'secret';\rexit\r")
        assert history.stat().st_mode & 0o777 == 0o600
        history.chmod(0o644)  # as earlier releases left it
    assert history.read_text(encoding="utf-8").count("secret") == 2


def test_without_a_place_for_the_history_statements_are_answered(home: Path) -> None:
    (home / HISTORY.name).symlink_to(home / "nowhere" / "history")
    said = typed("SELECT 1;\rexit\r")
    assert said.asked == [("SELECT 1", 7)] and said.errors == []


@pytest.mark.parametrize("pasted", ["-- MAGIC %python\r", "\x1b[200~-- MAGIC %python\n-- MAGIC print(1)\n\x1b[201~\r"])
def test_a_cell_in_another_language_does_not_end_the_shell(pasted: str) -> None:
    said = typed(f"{pasted}SELECT 1;\rquit;\r")
    assert said.asked == [("SELECT 1", 7)]
    assert ["a cell in python" in each for each in said.errors] == [True]


@pytest.mark.parametrize(
    "raised", [PySparkException("the server is gone"), Py4JNetworkError("Java is gone"), ConnectionRefusedError()]
)
def test_words_are_completed_where_nobody_tells_the_tables(raised: Exception) -> None:
    gone = Mock(**{"sql.side_effect": raised})
    assert {"VERIFY", "SELECT"} <= set(completions(gone))


CATALOG = {"default": ["t"], "shop": ["orders", "per day"], "annex": ["orders"]}
COLUMNS = {
    "t": ["id"],
    "passing": ["by"],
    "default.t": ["id"],
    "shop.orders": ["amount", "an id"],
    "annex.orders": ["address"],
    "shop.`per day`": ["day"],
}


class Catalog:
    """Answers what completion and the commands of the shell ask; the current schema is `default`."""

    def __init__(self) -> None:
        self.asked = list[str]()
        self.version = "4.2.0"

    def sql(self, text: str) -> SimpleNamespace:
        self.asked.append(text)
        rows = self.rows(text)
        return SimpleNamespace(collect=lambda: rows, columns=list(rows[0].asDict()) if rows else [])

    def rows(self, text: str) -> list[Row]:
        words = text.split(maxsplit=2)
        schema = text.partition(" IN ")[2].replace("`", "") or "default"
        match words:
            case ["SHOW", "SCHEMAS"]:
                return [Row(namespace=each) for each in CATALOG]
            case ["SHOW", "TABLES", *_]:
                temporary = [Row(namespace="", tableName="passing", isTemporary=True)]
                return [Row(namespace=schema, tableName=each, isTemporary=False) for each in CATALOG[schema]] + temporary
            case ["SHOW", "VIEWS", *_]:
                return [Row(namespace=schema, viewName="per day", isTemporary=False)] if schema == "shop" else []
            case ["SHOW", "STREAM", _]:
                return [Row(name=f"spark_catalog.{schema}.orders")] if schema == "shop" else []
            case ["DESCRIBE", "TABLE", name]:
                known = COLUMNS[name] if name in COLUMNS else COLUMNS[name.replace("`", "")]
                columns = [Row(col_name=each, data_type="int", comment=None) for each in known]
                return [
                    *columns,
                    Row(col_name="# Partition Information", data_type="", comment=""),
                    Row(col_name="no", data_type="", comment=""),
                ]
            case ["DESCRIBE", "STREAM", name]:
                if "orders" not in name:
                    raise StreamTableNotFound("it is an ordinary table")
                return [Row(property="status", value="ACTIVE")]
        raise AssertionError(text)


@pytest.mark.parametrize(
    ("line", "offered", "not_offered"),
    [
        ("SEL", ["SELECT"], ["sales"]),
        ("SELECT * FROM sho", ["shop", "shop.orders", "shop.`per day`"], ["annex.orders"]),
        ("SELECT * FROM ord", ["ORDER", "shop.orders", "annex.orders"], ["t"]),  # by the last part of the name
        ("SELECT * FROM shop.", ["shop.orders", "shop.`per day`"], ["annex.orders", "amount", "SELECT"]),
        ("SELECT * FROM shop.`p", ["shop.`per day`"], ["shop.orders"]),
        ("SELECT * FROM SHOP.O", ["shop.orders"], ["annex.orders"]),
        ("SELECT * FROM shop.orders WHERE a", ["amount", "`an id`", "annex"], ["address", "id"]),
        ("SELECT * FROM shop.orders o WHERE o.", ["amount", "`an id`"], ["address", "shop.orders"]),
        ("SELECT * FROM shop.orders, annex.orders WHERE annex.orders.", ["address"], ["amount"]),
        ("SELECT i", ["id", "INSERT"], ["amount"]),  # of the current schema, before a table is named
        ("\\", ["\\d", "\\dt", "\\timing", "\\q", "\\?"], ["SELECT"]),
        ("\\ti", ["\\timing"], ["\\d"]),
        ("\\d sho", ["shop.orders"], ["\\d"]),
    ],
)
def test_names_of_all_schemas_and_columns_are_completed(line: str, offered: list[str], not_offered: list[str]) -> None:
    spark: Any = Catalog()
    found = [each.text for each in Completions(spark).get_completions(Document(line), CompleteEvent())]
    assert set(offered) <= set(found) and not set(not_offered) & set(found), found


def test_columns_are_completed_before_the_table_that_follows() -> None:
    spark: Any = Catalog()
    text = "SELECT am FROM shop.orders"
    (found,) = Completions(spark).get_completions(Document(text, cursor_position=9), CompleteEvent())
    assert (found.text, found.start_position) == ("amount", -2)


def test_the_catalog_is_asked_once_between_two_statements() -> None:
    spark: Any = Catalog()
    names = Completions(spark)
    for _ in range(2):
        list(names.get_completions(Document("SELECT a FROM shop.orders"), CompleteEvent()))
    assert len(spark.asked) == len(set(spark.asked))
    names.forget()
    list(names.get_completions(Document("SELECT "), CompleteEvent()))
    assert spark.asked.count("SHOW SCHEMAS") == 2


def test_commands_of_the_shell() -> None:
    said = typed("\\d\r\\dt shop\r\\d shop.orders\r\\d t;\r\\q\rSELECT 1;\r", Catalog())
    assert said.printed[:2] == [
        (["name", "kind"], [("t", "table"), ("passing", "temporary view")]),
        (["name", "kind"], [("orders", "stream table")]),
    ]
    columns, stream, ordinary = said.printed[2:]
    assert ("amount", "int", None) in columns[1] and stream == (["property", "value"], [("status", "ACTIVE")])
    assert ("id", "int", None) in ordinary[1]
    assert said.asked == [] and said.errors == []  # and \\q left


def test_times_are_shown_until_they_are_switched_off() -> None:
    said = typed("SELECT 1;\r\\timing\rSELECT 2;\r\\timing on\rSELECT 3;\r\\timing off\r\\q\r")
    times = [each.endswith(" s") for each in said.notes]
    assert times == [True, False, False, True, False] and len(said.asked) == 3


def test_a_wrong_command_of_the_shell_is_told_and_the_shell_goes_on() -> None:
    said = typed("\\x\r\\timing maybe\r\\q now\r\\\rSELECT 1;\rexit\r")
    assert [each.partition("\n")[0].partition("] ")[2] for each in said.errors] == [
        "the shell has no command \\x",
        "\\timing is on or off, and not maybe",
        "\\q takes nothing behind it, and there is: now",
        "the shell has no command \\",
    ]
    assert said.asked == [("SELECT 1", 7)]


def test_all_commands_are_listed_and_in_the_docs() -> None:
    said = typed("\\?\r\\q\r")
    docs = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for word in COMMANDS:
        assert any(each.startswith(f"{word} ") for each in said.notes)
        assert f"`{word}" in docs


def test_the_banner_names_versions_and_help_and_no_token() -> None:
    spark: Any = Catalog()
    assert "Spark 4.2.0 with Delta Lake 4." in banner(spark, None) and "\\?" in banner(spark, None)
    of_server = banner(spark, "sc://localhost:15002/;token=secret")
    assert "sc://localhost:15002" in of_server and "secret" not in of_server
