"""What the command line prints is what Spark answered, and its own sessions are no clients."""

from __future__ import annotations

import json
import math
import os
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Row

from streamtable.errors import InvalidStatement, NotEnabled
from streamtable.hosts.cli import sessions
from streamtable.hosts.cli.output import Printer


def printed(capsys: pytest.CaptureFixture[str], *row: Any) -> Any:
    """Return the row as a program reads it from `--json`."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    Printer(as_json=True).rows([f"c{i}" for i in range(len(row))], [row])
    (read,) = json.loads(capsys.readouterr().out, parse_constant=refuse)
    return list(read.values())


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (":id: [red]x[/red]", ":id: [red]x[/red]"),
        ("\t\r\n\f", "\t\r\n\f"),
        (Row(a=1, b=Row(c=date(2026, 1, 5))), {"a": 1, "b": {"c": "2026-01-05"}}),
        ([Row(a=Decimal("1.50"))], [{"a": "1.50"}]),
        (Row("a", "b"), ["a", "b"]),
        ({date(2026, 1, 5): Decimal("1.50")}, {"2026-01-05": "1.50"}),
        ({Decimal("1.50"): Row(a=b"\x01")}, {"1.50": {"a": "01"}}),
        ({False: None, 2.5: 2, math.nan: 3, Row(a=1): 4}, {"false": None, "2.5": 2, "NaN": 3, '{"a": 1}': 4}),
        ([math.nan, math.inf, -math.inf, 1.5], ["NaN", "Infinity", "-Infinity", 1.5]),
        (datetime(2026, 1, 5, 12, tzinfo=timezone.utc), "2026-01-05T12:00:00+00:00"),
    ],
)
def test_json_holds_the_value(capsys: pytest.CaptureFixture[str], value: Any, expected: Any) -> None:
    assert printed(capsys, value) == [expected]


@pytest.mark.parametrize("text", [":id:\tb", "a\r\n\fb", "[red]x[/red]", "x" * 1000])
def test_text_is_printed_as_it_is(capsys: pytest.CaptureFixture[str], text: str) -> None:
    Printer(as_json=False).text(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_errors_and_notes_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(as_json=True).error(InvalidStatement("there is no :id: here"), at="line 1")
    assert "there is no :id: here" in json.loads(capsys.readouterr().err)["error"]["message"]
    Printer(as_json=False).note("there is no :id: here")
    assert capsys.readouterr().err == "there is no :id: here\n"


def test_a_session_of_its_own_is_no_client_of_the_server_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    remotes = list[str | None]()

    def started(builder: object) -> Exception:
        remotes.append(os.environ.get("SPARK_REMOTE"))
        return NotEnabled("this is far enough")

    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost:15002")
    monkeypatch.setattr(sessions, "started", started)
    with pytest.raises(NotEnabled, match="far enough"):
        sessions.local({"spark.master": "local[1]"}, quiet=False)  # PySpark refuses a master beside the variable
    assert remotes == [None]
