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
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions import captured
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from streamtable.errors import InternalError, StreamTableError, all_errors, clear_frames
from streamtable.jvm.callback_server import callbacks, implementation
from streamtable.jvm.failures import catalog_in_use, causes, java_exception
from streamtable.jvm.gateway import SHIM, JavaRows, java_class
from streamtable.jvm.handles import keep_no_cycles
from streamtable.jvm.storage import storage_failed

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

HANDLERS = f"{SHIM}.Handlers"
# What the shim throws, and what Spark makes of it when a check rule throws it: a copy of another class.
OURS = (f"{SHIM}.StreamTableException", "org.apache.spark.sql.catalyst.ExtendedAnalysisException")
KEPT_ERRORS, KEPT_SECONDS = 256, 60.0  # one that reaches a client outside this process is never asked for again
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_kept: dict[str, tuple[StreamTableError, float]] = {}
"""Errors on their way through the JVM, with their start times, the oldest first."""


class Answers(Protocol):
    """Answers statements: first the type of the result, then the result."""

    def describe(self, spark: SparkSession, sql: str) -> StructType:
        """Return the columns of the statement's result. Raises errors of the statement."""

    def run(self, spark: SparkSession, sql: str) -> Iterable[Sequence[Any]] | JavaRows:
        """Carry the statement out in its session, and return the rows of its result."""

    def begun(self, spark: SparkSession, sql: str) -> str:
        """Return the current columns of a subscription's tables, as JSON, for a subscription that begins now."""

    def latest(self, spark: SparkSession, sql: str, columns: str, start: int | None, newest: int | None) -> int | None:
        """Return the latest time for a subscription at the time `start`, or the end of its next batch towards `newest`.

        None if it cannot begin yet.
        """

    def batch(self, spark: SparkSession, sql: str, columns: str, start: int | None, end: int) -> DataFrame:
        """Return the rows after `start`, or from the beginning, and up to `end`."""

    def mentioned(self, sql: str) -> dict[str, Any]:
        """Return the names, queries and paths in the statement. Raises its errors."""

    def describe_function(self, name: str, arguments: Sequence[str | None]) -> StructType:
        """Return the columns of a table function. Raises errors of its arguments."""

    def call_function(self, spark: SparkSession, name: str, arguments: Sequence[str | None]) -> Iterable[Sequence[Any]]:
        """Return its rows."""

    def accompany(self, spark: SparkSession, operation: str, name: Sequence[str], done: bool) -> Iterable[Sequence[Any]]:
        """Do what a statement of Spark does not know of stream tables, before it and when it is done; return its rows."""

    def check_source_ddl(self, spark: SparkSession, operation: str, name: str, place: str) -> None:
        """Raise an error if `operation` is not allowed on a table at the path `place`, or on a view of that full name."""


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

    def begun(self, session: JavaObject, sql: str) -> str:
        """Return the JSON of the columns that a subscription means, or of the error."""
        return _answer(lambda: {"columns": self._answers.begun(_session(session), sql)})

    def latest(self, session: JavaObject, sql: str, columns: str, start: str | None, newest: str | None) -> str:
        """Return the JSON of a time, or of the error."""
        found = partial(self._answers.latest, _session(session), sql, columns)
        return _answer(lambda: {"latest": _text(found(_time(start), _time(newest)))})

    def batch(self, session: JavaObject, sql: str, columns: str, start: str | None, end: str) -> str:
        """Return the JSON of where the frame is held, or of the error."""
        return _answer(lambda: _held(self._answers.batch(_session(session), sql, columns, _time(start), int(end))._jdf))

    def mentioned(self, sql: str) -> str:
        """Return the JSON of what a statement mentions, or of the error."""
        return _answer(lambda: self._answers.mentioned(sql))

    def describeFunction(self, name: str, arguments: Sequence[str | None]) -> str:  # noqa: N802  (the shim's spelling)
        """Return the JSON of a table function's columns, or of the error."""
        return _answer(lambda: {"schema": self._answers.describe_function(name, list(arguments)).jsonValue()})

    def callFunction(self, session: JavaObject, name: str, arguments: Sequence[str | None]) -> str:  # noqa: N802
        """Return the JSON of its rows, or of the error."""
        return _answer(lambda: _rows(self._answers.call_function(_session(session), name, list(arguments))))

    def accompany(self, session: JavaObject, operation: str, name: Sequence[str], done: bool) -> str:
        """Return the JSON of the rows, or of the error."""
        return _answer(lambda: _rows(self._answers.accompany(_session(session), operation, list(name), done)))

    def checkSourceDdl(self, session: JavaObject, operation: str, name: str, place: str) -> str:  # noqa: N802
        """Return the JSON of the error, or of nothing."""

        def check() -> dict[str, Any]:
            self._answers.check_source_ddl(_session(session), operation, name, place)
            return {}

        return _answer(check)

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


def _time(text: str | None) -> int | None:
    return None if text is None else int(text)


def _text(time: int | None) -> str | None:
    return None if time is None else str(time)


def register(spark: SparkSession, answers: Answers) -> None:
    """Let `answers` answer the statements of every session in this JVM, in place of an earlier object."""
    _raise_originals()
    keep_no_cycles()
    # py4j holds the Handler for as long as the JVM holds its proxy.
    java_class(spark, HANDLERS).set(implementation(spark, Handler(answers)), callbacks(spark))


def _answer(compute: Callable[[], dict[str, Any]]) -> str:
    try:
        _forget_errors()
        return json.dumps(compute())
    except Exception as error:  # whatever it is, the JVM must get an answer that it can raise
        told = json.dumps({"error": _error(error)})
        clear_frames(error)
        return told


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


def _error(error: Exception) -> dict[str, Any]:
    """Return the error as the shim reads it, and keep the object until the exception arrives here."""
    key = uuid4().hex
    told = catalog_in_use(error) or storage_failed(error)
    java = None if told else java_exception(error)
    if java is not None:
        # Raised by Spark: the shim raises the same exception again, so class, condition and text stay Spark's.
        java_class(SparkContext, HANDLERS).keep(key, java)
        return {"id": key}
    known = told or (error if isinstance(error, StreamTableError) else _internal(error))
    _kept[key] = known, time.monotonic()
    return {
        "id": key,
        "condition": known.getCondition(),
        "sqlState": known.getSqlState(),
        "message": str(known),
        "parameters": known.getMessageParameters(),
    }


def _forget_errors() -> None:
    """Drop old errors that no client asked for, because their frames may hold sessions and plans."""
    for key, (_, since) in list(_kept.items()):
        if len(_kept) <= KEPT_ERRORS and time.monotonic() - since < KEPT_SECONDS:
            break
        _kept.pop(key, None)  # another thread forgets as well


def _internal(error: Exception) -> InternalError:
    internal = InternalError(f"{type(error).__name__}: {error}")
    internal.__cause__ = error
    return internal


def _raise_originals() -> None:
    """Make py4j raise the original of an exception that the shim raised for an error of ours.

    PySpark converts JVM exceptions in the result of `capture_sql_exception`, and installs it with every new session. There
    is no registry for further classes, so this function itself is wrapped.
    """
    sparks = captured.capture_sql_exception
    if getattr(sparks, "raises_originals", False):
        return

    def capture_sql_exception(f: Callable[..., Any]) -> Callable[..., Any]:
        return sparks(_raising_originals(f))

    capture_sql_exception.raises_originals = True  # type: ignore[attr-defined]
    captured.capture_sql_exception = capture_sql_exception
    captured.install_exception_handler()


def _raising_originals(call: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*args: Any, **options: Any) -> Any:
        try:
            return call(*args, **options)
        except Py4JJavaError as error:
            original = _original(error.java_exception)
            if original is None:
                raise
            # Its own traceback stays; its cause is given again, because `raise ... from` sets it.
            raise original from original.__cause__

    return wrapped


def _original(java: JavaObject | None) -> StreamTableError | None:
    """Return our error for a JVM exception or one of its causes; None for other exceptions."""
    for cause in causes(java):
        if cause.getClass().getName() in OURS and cause.getCondition() in _kinds():
            # Each is asked for by its name: the end of an iteration over a Java map is an error of Java's, converted at length.
            parameters = cause.getMessageParameters()
            key = parameters.get("id")
            kept, _ = _kept.pop(key, (None, 0.0))
            return kept or (None if key else _raised_by_shim(cause.getCondition(), parameters))  # one that another process keeps
    return None


def _raised_by_shim(condition: str, parameters: JavaObject) -> StreamTableError:
    return _kinds()[condition](parameters.get("reason"), hint=parameters.get("hint"))


@lru_cache(maxsize=1)
def _kinds() -> dict[str, type[StreamTableError]]:
    return {kind.condition: kind for kind in all_errors()}
