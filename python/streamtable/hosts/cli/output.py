"""The output of the command line: tables for people, JSON for programs, and errors on stderr in either form."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ExitCode", "Printer", "plain", "table_of", "visible"]

WIDTH_OF_A_FILE = 240
"""The width without a terminal. It is large, because the lines are for grep, less, and logs."""


_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_CONTROLS_IN_JSON = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""Those that JSON does not escape by itself; in JSON they stand in texts only."""


def visible(text: str) -> str:
    """Return text for a terminal: control characters, by which data would steer the terminal, are written as \\xNN."""
    return text.translate(_CONTROLS)


class ExitCode(IntEnum):
    """The exit codes, listed in docs/reference/cli.md. The code 2, wrong use of the command, is typer's."""

    DONE = 0
    FAILED = 1
    NO_SESSION = 3
    NOT_EXACT = 4


class Printer:
    """Where a command prints."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.console = Console(highlight=False, emoji=False)
        if not self.console.is_terminal:
            self.console.width = WIDTH_OF_A_FILE
        self._errors = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)

    def answer(self, spark: SparkSession, sql: str, limit: int, args: Mapping[str, Any] | None = None) -> None:
        """Run a statement, print the first `limit` rows of its result, and tell whether there are more."""
        with self.waiting(spark):
            frame = spark.sql(sql, args=dict(args)) if args else spark.sql(sql)
            rows = frame.take(limit + 1)
        if self._for_people(frame.columns):
            from streamtable.hosts.cli.status import status_of

            self.console.print(status_of(rows[:limit], datetime.now().astimezone(), self.console.width))
        else:
            self.rows(frame.columns, rows[:limit])
        if len(rows) > limit:
            self.note(f"only the first {limit} rows; --limit shows more")

    def _for_people(self, columns: Sequence[str]) -> bool:
        """Tell whether rows are those of SHOW STREAM TABLES, and people look at them: no terminal has room for all columns."""
        if self.as_json or not self.console.is_terminal:
            return False
        from streamtable.observe.status_rows import LISTED

        return list(columns) == LISTED.names

    def announce(self, what: str) -> None:
        """Tell people at a terminal what is done now."""
        if not self.as_json and sys.stderr.isatty():
            self.note(what)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Show on a terminal what the block does, and for how long."""
        if self.as_json or not sys.stderr.isatty() or self._errors.is_dumb_terminal:
            self.announce(what)
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        # Of its own, because a JVM that starts is given another stderr (jvm/output.py).
        with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8") as terminal:
            console = Console(file=terminal, emoji=False)
            with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
                progress.add_task(what, total=None)
                yield

    @contextmanager
    def waiting(self, spark: SparkSession) -> Iterator[None]:
        """Show the progress of the block's statements while they run, if the output is a terminal."""
        if self.as_json or not self._errors.is_terminal:
            yield
            return
        from streamtable.hosts.progress import watched

        columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=self._errors, transient=True) as progress:
            task = progress.add_task("", total=None)

            def show(line: str, share: float | None) -> None:
                progress.update(task, description=escape(visible(line)), completed=share or 0, total=None if share is None else 1)

            with watched(spark, show):
                yield

    def rows(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print rows: a table, or a line with a JSON array of objects."""
        if self.as_json:
            self.json([dict(zip(columns, row, strict=True)) for row in rows])
        elif columns:
            self.console.print(table_of(columns, rows))

    def json(self, value: Any) -> None:
        """Print one line of JSON."""
        _write(self.console, json.dumps(plain(value), ensure_ascii=False, allow_nan=False).translate(_CONTROLS_IN_JSON))

    def text(self, text: str) -> None:
        """Print text: into a file or a pipe as it is, on a terminal with its control characters visible."""
        _write(self.console, visible(text) if self.console.is_terminal else text)

    def flush(self) -> None:
        """Flush the output, for readers of a pipe."""
        self.console.file.flush()

    def note(self, text: str) -> None:
        """Print a note for people, which is not part of the result."""
        self._errors.print(visible(text), markup=False, style="dim")

    def error(self, error: BaseException, at: str | None = None) -> None:
        """Print what went wrong, and where."""
        from streamtable.hosts.cli.failures import said

        told = said(error)
        if self.as_json:
            _write(self._errors, json.dumps({"error": {**told, **({"at": at} if at else {})}}).translate(_CONTROLS_IN_JSON))
            return
        text = Text("error: ", style="bold red")
        if at:
            text.append(visible(f"{at}: "))
        text.append(visible(told["message"] or type(error).__name__), style="default not bold")
        self._errors.print(text)


def table_of(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return rows as a table whose numbers stand to the right."""
    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, column in enumerate(columns):
        numbers = any(isinstance(row[i], int | float) and not isinstance(row[i], bool) for row in rows)
        table.add_column(Text(visible(column)), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return Text(visible(value.plain), value.style)
    return Text("NULL", style="dim") if value is None else Text(visible(str(value)))


def plain(value: Any) -> Any:
    """Return the JSON form of a value without one: times as ISO 8601, all others as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
        case bytes() | bytearray():
            return value.hex()
        case tuple() if (names := getattr(value, "__fields__", None)) is not None:  # a row of Spark's
            return {name: plain(each) for name, each in zip(names, value, strict=True)}
        case Mapping():
            return {_key(key): plain(each) for key, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}
"""As Spark writes them; JSON has no numbers for them."""


def _key(key: Any) -> str:
    """Return the key of a map as text, which is all that JSON takes there."""
    key = plain(key)
    return key if isinstance(key, str) else json.dumps(key, ensure_ascii=False)


def _write(console: Console, text: str) -> None:
    """Write a line unchanged; rich's print drops control characters, and replaces tabs by spaces."""
    console.file.write(f"{text}\n")
    console.file.flush()
