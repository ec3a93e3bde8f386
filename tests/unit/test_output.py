"""What the command line prints is what Spark answered, and its own sessions are no clients."""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row
from rich.console import Console
from rich.text import Text

from streamtable.errors import InvalidStatement, NotEnabled
from streamtable.hosts.cli import sessions
from streamtable.hosts.cli.output import Printer
from streamtable.hosts.cli.status import STATUS, status_of
from streamtable.observe.status_rows import LISTED


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


def status_row(name: str, **more: Any) -> Row:
    """Return a line of stream_tables() as it is for a table in order."""
    good = dict.fromkeys(STATUS) | {"name": name, "status": "ACTIVE", "refresh_mode": "AUTO", "state": "fresh", "version": 1}
    return Row(**good | {"staleness_seconds": 0.0, "last_action": "FULL", "row_count": 3, "size_bytes": 2000} | more)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_status_cuts_names_in_the_middle_and_breaks_none(capsys: pytest.CaptureFixture[str], width: int) -> None:
    now = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
    name = f"spark_catalog.shop.{'a_long_name_' * 20}end"
    rows = [
        status_row(name, state="failing", error="[STREAMTABLE_REFRESH_FAILED] a division by zero"),
        status_row("spark_catalog.shop.t", staleness_seconds=90.0, state="stale", next_due=now, last_success=now),
        status_row("spark_catalog.shop.u", status="SUSPENDED", state="suspended", staleness_seconds=None),
    ]
    console = Console(width=width, highlight=False)
    console.print(status_of(rows, now, width))
    head, _, failing, stale, suspended, *trouble = capsys.readouterr().out.splitlines()
    assert "spark_catalog" not in "".join((failing, stale, suspended, *trouble)) and max(map(len, (head, failing))) <= width
    assert re.match(r"shop\.a_\S*…\S*end +failing ", failing)
    assert re.match(r"shop\.t +stale +1 min 30 s ", stale) and re.match(r"shop\.u +suspended +never filled ", suspended)
    assert re.match(r"shop\.a_\S*…\S*end is failing: \[STREAMTABLE_REFRESH_FAILED\] a division by zero", " ".join(trouble))
    assert ("last attempt" in head and "size" in head) == (width == 200)


def test_of_a_table_that_nobody_can_read_a_status_shows_why(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = dict.fromkeys(STATUS)
    row = Row(**nothing | {"name": "spark_catalog.shop.t", "status": "UNREADABLE", "error": "its folder is gone"})
    Console(width=200, highlight=False).print(status_of([row], datetime(2026, 1, 5, tzinfo=timezone.utc), 200))
    *_, line, trouble = (each.split() for each in capsys.readouterr().out.splitlines())
    assert line == ["shop.t", "unreadable"] and trouble == ["shop.t", "is", "unreadable:", "its", "folder", "is", "gone"]


STEERING = "\x1b[2J\x1b]0;title\x07 \x9b31m \x7f \x00\r\x0b\x0c\x08"


class Terminal(io.StringIO):
    """A terminal that keeps what it is sent."""

    def isatty(self) -> bool:
        return True


def test_data_does_not_steer_the_terminal_of_who_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, terminal)
    monkeypatch.setenv("TERM", "dumb")  # rich writes no sequences of its own
    monkeypatch.setenv("COLUMNS", "400")
    out = Printer(as_json=False)
    out.rows([f"a {STEERING}"], [(f"b\tb {STEERING}",), (Text(f"c {STEERING}", "bold"),)])
    out.error(InvalidStatement(f"d {STEERING}"), at=f"e {STEERING}")
    out.note(f"f {STEERING}")
    out.text(f"g {STEERING}")
    broken = status_row(f"c.s.h {STEERING}", state="failing", error=f"i {STEERING}")
    out.console.print(status_of([broken], datetime(2026, 1, 5, tzinfo=timezone.utc), 400))
    out = Printer(as_json=True)
    out.rows([f"j {STEERING}"], [(f"k {STEERING}",)])
    out.error(InvalidStatement(f"l {STEERING}"), at=f"m {STEERING}")
    said = terminal.getvalue()
    assert {each for each in said if not each.isprintable()} <= {"\n", "\t"}, said
    assert said.count(r"\x1b[2J") >= 8 and r"\x9b31m" in said and r"\u009b31m" in said


def listing(*names: str) -> Any:
    """Return a session that answers SHOW STREAM TABLES with tables of these names."""
    rows = [Row(**{each: status_row(name, schedule="'5m'")[each] for each in LISTED.names}) for name in names]
    return SimpleNamespace(sql=lambda _: SimpleNamespace(columns=LISTED.names, take=lambda most: rows[:most]))


@pytest.mark.parametrize("width", [80, 100, 160])
def test_people_who_list_stream_tables_see_a_line_for_each_whose_name_is_whole_or_cut(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """With all 15 columns a name stood in letters of three over seven lines."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(width))
    long = f"shop.{'a_long_name_' * 10}end"
    Printer(as_json=False).answer(listing("spark_catalog.shop.t", f"spark_catalog.{long}"), "SHOW STREAM TABLES", 10)
    head, _, short, cut = re.sub(r"\x1b\[[\d;]*m", "", terminal.getvalue()).splitlines()
    assert head.startswith("name ") and re.match(r"shop\.t +fresh ", short) and re.match(r"shop\.a_\S*…\S*end +fresh ", cut)
    assert max(map(len, (head, short, cut))) <= width
    assert ("schedule" in head and "'5m'" in short) == (width == 160)


def test_programs_that_list_stream_tables_get_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, as_json in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stdout", terminal)
        Printer(as_json).answer(listing("spark_catalog.shop.t"), "SHOW STREAM TABLES", 10)
        said = terminal.getvalue()
        assert "spark_catalog.shop.t" in said and all(column in said for column in LISTED.names)


def test_what_goes_into_a_file_keeps_its_characters(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(as_json=False).text(f"COMMENT '{STEERING}'")
    assert capsys.readouterr().out == f"COMMENT '{STEERING}'\n"
    assert printed(capsys, STEERING) == [STEERING]
