"""The interactive shell, typed into as by a terminal: what it sends, what it tells, when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException

from streamtable.errors import StreamTableNotFound
from streamtable.hosts.cli.output import Printer
from streamtable.hosts.cli.shell import HISTORY, completions, interact


class Recording(Printer):
    """Answers nothing but an error about `nobody`."""

    def __init__(self) -> None:
        super().__init__(as_json=False)
        self.asked = list[tuple[str, int]]()
        self.errors = list[str]()

    def answer(self, spark: Any, sql: str, limit: int) -> None:
        if "nobody" in sql:
            raise StreamTableNotFound("there is no stream table nobody")
        self.asked.append((sql, limit))

    def error(self, error: BaseException, at: str | None = None) -> None:
        self.errors.append(str(error))


def typed(text: str) -> Recording:
    spark: Any = None  # only completion and answers ask it
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
