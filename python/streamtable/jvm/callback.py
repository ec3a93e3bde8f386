"""The way of a statement from the JVM into Python, and of an error back to whoever asked.

Spark's parser hands our statements to the shim, which calls the Handler registered here (py4j). An answer is JSON. An error
is an answer too, with an id. For it the shim raises an exception of Spark's kind, which passes through Spark. When the
exception arrives in this process, the original Python error is raised in its place. Other clients (JDBC, Connect, JVM) see
the shim's exception, with the same condition, SQLSTATE and text.

No lock is held while the JVM is called: it may call back on another thread.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streamtable.errors import clear_frames
from streamtable.jvm.callback_server import callbacks, implementation
from streamtable.jvm.gateway import HANDLERS, SHIM, JavaRows, java_class
from streamtable.jvm.handles import keep_no_cycles
from streamtable.jvm.originals import forget_errors, kept, raise_originals

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Answers(Protocol):
    """Answers statements: first the type of the result, then the result."""

    def describe(self, spark: SparkSession, sql: str) -> StructType:
        """Return the columns of the statement's result. Raises errors of the statement."""

    def run(self, spark: SparkSession, sql: str) -> Iterable[Sequence[Any]] | JavaRows:
        """Carry the statement out in its session, and return the rows of its result."""

    def begun(self, spark: SparkSession, sql: str, place: str) -> str:
        """Return the columns that a subscription means, as JSON, when it begins; `place` is its folder in the checkpoint."""

    def latest(self, spark: SparkSession, sql: str, columns: str, start: str | None, newest: str | None) -> str | None:
        """Return the latest offset for a subscription at the offset `start`, or the end of its next batch towards `newest`.

        None if it cannot begin yet.
        """

    def batch(self, spark: SparkSession, sql: str, columns: str, start: str | None, end: str) -> DataFrame:
        """Return the rows after `start`, or from the beginning, and up to `end`."""

    def mentioned(self, spark: SparkSession, sql: str) -> dict[str, Any]:
        """Return the names, queries and paths in the statement. Raises its errors, and InvalidQuery for texts that do not parse."""

    def describe_function(self, spark: SparkSession, name: str, arguments: Sequence[str | None]) -> StructType:
        """Return the columns of a table function. Raises errors of its arguments."""

    def call_function(self, spark: SparkSession, name: str, arguments: Sequence[str | None]) -> Iterable[Sequence[Any]] | JavaRows:
        """Return its rows."""

    def accompany(
        self, spark: SparkSession, operation: str, name: Sequence[str], statement: Callable[[], object]
    ) -> Iterable[Sequence[Any]]:
        """Carry out a statement of Spark, and what it does not know of stream tables; return its rows."""

    def follow(self, spark: SparkSession, places: Sequence[str]) -> Sequence[str]:
        """Refresh the tables IMMEDIATE above the tables that were written, by path; return which lack the write, and why."""

    def check_source_ddl(self, spark: SparkSession, operation: str, name: str, place: str) -> None:
        """Raise an error if `operation` is not allowed on a table at the path `place`, or on a view of that full name."""

    def check_setting(self, key: str, value: str) -> None:
        """Raise an error if a setting of streamtable cannot have the value."""


class Handler:
    """Implement the shim's Handler by `answers`; the JVM calls it on the thread of the statement."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def describe(self, session: JavaObject, sql: str) -> str:
        """Return the JSON of the result's columns, or of the error."""
        return _answer(lambda: {"schema": self._answers.describe(_session(session), sql).jsonValue()})

    def run(self, session: JavaObject, sql: str) -> str:
        """Return the JSON of the result's rows, of where they are held, or of the error."""
        return _answer(lambda: _rows(self._answers.run(_session(session), sql)))

    def begun(self, session: JavaObject, sql: str, place: str) -> str:
        """Return the JSON of the columns that a subscription means, or of the error."""
        return _answer(lambda: {"columns": self._answers.begun(_session(session), sql, place)})

    def latest(self, session: JavaObject, sql: str, columns: str, start: str | None, newest: str | None) -> str:
        """Return the JSON of an offset, or of the error."""
        return _answer(lambda: {"latest": self._answers.latest(_session(session), sql, columns, start, newest)})

    def batch(self, session: JavaObject, sql: str, columns: str, start: str | None, end: str) -> str:
        """Return the JSON of where the frame is held, or of the error."""
        return _answer(lambda: _held(self._answers.batch(_session(session), sql, columns, start, end)._jdf))

    def mentioned(self, session: JavaObject, sql: str) -> str:
        """Return the JSON of what a statement mentions, or of the error."""
        return _answer(lambda: self._answers.mentioned(_session(session), sql))

    def describeFunction(self, session: JavaObject, name: str, arguments: Sequence[str | None]) -> str:  # noqa: N802  (the shim's spelling)
        """Return the JSON of a table function's columns, or of the error."""
        return _answer(lambda: {"schema": self._answers.describe_function(_session(session), name, list(arguments)).jsonValue()})

    def callFunction(self, session: JavaObject, name: str, arguments: Sequence[str | None]) -> str:  # noqa: N802
        """Return the JSON of its rows, of where they are held, or of the error."""
        return _answer(lambda: _rows(self._answers.call_function(_session(session), name, list(arguments))))

    def accompany(self, session: JavaObject, operation: str, name: Sequence[str], statement: JavaObject) -> str:
        """Return the JSON of the rows, or of the error. `statement` is a Runnable."""
        return _answer(lambda: _rows(self._answers.accompany(_session(session), operation, list(name), statement.run)))

    def follow(self, session: JavaObject, places: Sequence[str]) -> str:
        """Return the JSON of which tables lack the write, or of the error."""
        return _answer(lambda: {"missed": list(self._answers.follow(_session(session), list(places)))})

    def checkSourceDdl(self, session: JavaObject, operation: str, name: str, place: str) -> str:  # noqa: N802
        """Return the JSON of the error, or of nothing."""
        return _checked(lambda: self._answers.check_source_ddl(_session(session), operation, name, place))

    def checkSetting(self, key: str, value: str) -> str:  # noqa: N802
        """Return the JSON of the error, or of nothing."""
        return _checked(lambda: self._answers.check_setting(key, value))

    class Java:
        """Tell py4j which interface this object implements."""

        implements = [f"{SHIM}.Handler"]


def _session(session: JavaObject) -> SparkSession:
    context = SparkContext._active_spark_context  # getOrCreate() would take a lock
    assert context is not None, "the JVM of a SparkContext has called"
    return SparkSession(context, session)


def _rows(rows: Iterable[Sequence[Any]] | JavaRows) -> dict[str, Any]:
    if not isinstance(rows, JavaRows):
        return {"rows": [[_plain(value) for value in row] for row in rows]}
    told = _held(rows.list)
    rows.session._sc._gateway.detach(rows.list)  # type: ignore[union-attr]  # py4j's lists are in cycles by construction
    return told


def _held(result: JavaObject) -> dict[str, Any]:
    """Keep a result in the JVM, and return its id."""
    key = uuid4().hex
    java_class(SparkContext, HANDLERS).hold(key, result)
    return {"held": key}


def register(spark: SparkSession, answers: Answers) -> None:
    """Let `answers` answer the statements of every session in this JVM, in place of an earlier object."""
    raise_originals()
    keep_no_cycles()
    # py4j holds the Handler for as long as the JVM holds its proxy.
    java_class(spark, HANDLERS).set(implementation(spark, Handler(answers)), callbacks(spark))


def _answer(compute: Callable[[], dict[str, Any]]) -> str:
    try:
        forget_errors()
        return json.dumps(compute())
    except Exception as error:  # whatever it is, the JVM must get an answer that it can raise
        told = json.dumps({"error": kept(error)})
        clear_frames(error)
        return told


def _checked(check: Callable[[], None]) -> str:
    def nothing() -> dict[str, Any]:
        check()
        return {}

    return _answer(nothing)


def _plain(value: Any) -> Any:
    """Return a value's JSON form: a time as microseconds since 1970 (without a zone: local, as in PySpark)."""
    match value:
        case datetime():
            since = value.astimezone(timezone.utc) - EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        case Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value).replace("inf", "Infinity").replace("nan", "NaN")
        case _:
            return value
