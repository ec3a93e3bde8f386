"""The output of the command line: tables for people, JSON for programs, and errors on stderr in either form."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Row, SparkSession
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table
from rich.text import Text

from streamtable.errors import message_of
from streamtable.hosts.progress import watched
from streamtable.jvm.failures import causes

__all__ = ["ERRORS_OF_SPARK", "ExitCode", "Printer", "plain", "table_of"]

ERRORS_OF_SPARK = (PySparkException, Py4JJavaError)
"""The errors of statements, ours included. Java's errors without a class of PySpark stay errors of py4j."""

WIDTH_OF_A_FILE = 240
"""The width without a terminal. It is large, because the lines are for grep, less, and logs."""


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

    def answer(self, spark: SparkSession, sql: str, limit: int) -> None:
        """Run a statement, print the first `limit` rows of its result, and tell whether there are more."""
        with self.waiting(spark):
            frame = spark.sql(sql)
            rows = frame.take(limit + 1)
        self.rows(frame.columns, rows[:limit])
        if len(rows) > limit:
            self.note(f"only the first {limit} rows; --limit shows more")

    @contextmanager
    def waiting(self, spark: SparkSession) -> Iterator[None]:
        """Show the progress of the block's statements while they run, if the output is a terminal."""
        if self.as_json or not self._errors.is_terminal:
            yield
            return
        columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=self._errors, transient=True) as progress:
            task = progress.add_task("", total=None)

            def show(line: str, share: float | None) -> None:
                progress.update(task, description=line, completed=share or 0, total=None if share is None else 1)

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
        self.text(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))

    def text(self, text: str) -> None:
        """Print text as it is."""
        _write(self.console, text)

    def flush(self) -> None:
        """Flush the output, for readers of a pipe."""
        self.console.file.flush()

    def note(self, text: str) -> None:
        """Print a note for people, which is not part of the result."""
        self._errors.print(text, markup=False, style="dim")

    def error(self, error: BaseException, at: str | None = None) -> None:
        """Print what went wrong, and where."""
        said = _said(error)
        if self.as_json:
            _write(self._errors, json.dumps({"error": {**said, **({"at": at} if at else {})}}))
            return
        text = Text("error: ", style="bold red")
        if at:
            text.append(f"{at}: ")
        text.append(said["message"] or type(error).__name__, style="default not bold")
        self._errors.print(text)


def table_of(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return rows as a table whose numbers stand to the right."""
    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, column in enumerate(columns):
        numbers = any(isinstance(row[i], int | float) and not isinstance(row[i], bool) for row in rows)
        table.add_column(Text(column), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("NULL", style="dim") if value is None else Text(str(value)) for value in row))
    return table


def plain(value: Any) -> Any:
    """Return the JSON form of a value without one: times as ISO 8601, all others as text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
        case bytes() | bytearray():
            return value.hex()
        case Row(__fields__=names):
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


def _said(error: BaseException) -> dict[str, str | None]:
    if isinstance(error, Py4JJavaError):
        error = _captured(error)
    if not isinstance(error, PySparkException):
        return {"condition": type(error).__name__, "sqlstate": None, "message": str(error)}
    return {"condition": error.getCondition(), "sqlstate": error.getSqlState(), "message": message_of(error)}


def _captured(error: Py4JJavaError) -> CapturedException:
    """Return the error as PySpark would raise it if it had a class for it.

    It is the first one in the chain with an error class: failures of tasks wrap the error that stopped the task.
    """
    for java in causes(error.java_exception):
        found = CapturedException(origin=java)
        if found.getCondition():
            return found
    return CapturedException(desc=java.toString(), stackTrace="")
