"""Answers of statements as dataclasses, and the one way to issue statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TypeVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession

from streamtable.errors import all_errors, message_of
from streamtable.language.parse import whole
from streamtable.language.stream_table.ast import Statement
from streamtable.language.write import to_sql

__all__ = ["Dependency", "Finding", "Listed", "Past", "Refreshed", "Requested", "Verdict", "ask", "ask_all", "read", "rows"]

T = TypeVar("T")


@dataclass(frozen=True)
class Refreshed:
    """The result of a CREATE or a REFRESH."""

    name: str
    action: str
    reason: str
    rows_inserted: int
    rows_deleted: int
    duration_ms: int
    version: int | None
    """None for a table that cannot be read."""


@dataclass(frozen=True)
class Requested:
    """A refresh that was left to a scheduler. `request` is its id in `refresh_history()`."""

    name: str
    request: str
    status: str
    reason: str


@dataclass(frozen=True)
class Listed:
    """A line of SHOW STREAM TABLES; of a table that cannot be read, the name, the status and the error alone."""

    name: str
    status: str
    refresh_mode: str | None
    schedule: str | None
    state: str | None
    last_success: datetime | None
    last_attempt: datetime | None
    next_due: datetime | None
    staleness_seconds: float | None
    row_count: int | None
    size_bytes: int | None
    reason: str | None
    last_action: str | None
    version: int | None
    error: str | None


@dataclass(frozen=True)
class Past:
    """A line of SHOW REFRESH HISTORY."""

    name: str
    version: int
    at: datetime
    action: str
    reason: str
    rows_inserted: int
    rows_deleted: int
    duration_ms: int


@dataclass(frozen=True)
class Finding:
    """An operator of the query: whether it is maintained incrementally, and why or why not."""

    operator: str
    incremental: bool
    reason: str


@dataclass(frozen=True)
class Verdict:
    """The result of VERIFY: rows that only the query has (`missing`), and rows that only the table has (`surplus`)."""

    name: str
    ok: bool
    missing: int
    surplus: int


@dataclass(frozen=True)
class Dependency:
    """A stream table reads a source: a table or a stream table, or a view or function through which its query goes.

    `columns` are those of a table that the query mentions.
    """

    name: str
    source: str
    kind: str
    columns: str | None = None


def rows(spark: SparkSession, statement: Statement) -> list[Row]:
    """Issue a statement; return its rows. An error of ours that comes over Spark Connect is raised as its class of ours."""
    try:
        return spark.sql(whole(to_sql(statement))).collect()
    except AnalysisException as error:
        raise _as_ours(error) from error


def _as_ours(error: AnalysisException) -> PySparkException:
    kind = next((kind for kind in all_errors() if kind.condition == error.getCondition()), None)
    if kind is None:
        return error
    text = message_of(error).removeprefix(f"[{kind.condition}] ")
    reason, _, hint = text.rpartition(f"\nSQLSTATE: {kind.sqlstate}")[0].partition("\nWhat to do: ")
    return kind(reason, hint=hint or None)


def ask(spark: SparkSession, kind: type[T], statement: Statement) -> T:
    """Issue a statement that answers with one row."""
    (answer,) = ask_all(spark, kind, statement)
    return answer


def ask_all(spark: SparkSession, kind: type[T], statement: Statement) -> list[T]:
    """Issue a statement; return its rows as `kind`."""
    return read(kind, rows(spark, statement))


def read(kind: type[T], found: Iterable[Row]) -> list[T]:
    """Return rows as `kind`, by the names of the columns. A later server may answer with more columns."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return [kind(**{name: row[name] for name in names}) for row in found]
