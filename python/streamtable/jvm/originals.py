"""Errors on their way through the JVM: each leaves Python as JSON with an id, and is raised again when its exception comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions import captured

from streamtable.errors import InternalError, StreamTableError, all_errors
from streamtable.jvm.failures import catalog_in_use, causes, java_exception
from streamtable.jvm.gateway import HANDLERS, SHIM, java_class
from streamtable.jvm.storage import storage_failed

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

__all__ = ["forget_errors", "kept", "raise_originals"]

# What the shim throws, and what Spark makes of it when a check rule throws it: a copy of another class.
OURS = (f"{SHIM}.StreamTableException", "org.apache.spark.sql.catalyst.ExtendedAnalysisException")
KEPT_ERRORS, KEPT_SECONDS = 256, 60.0  # one that reaches a client outside this process is never asked for again

_kept: dict[str, tuple[StreamTableError, float]] = {}
"""Errors on their way through the JVM, with their start times, the oldest first."""


def kept(error: Exception) -> dict[str, Any]:
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


def forget_errors() -> None:
    """Drop old errors that no client asked for, because their frames may hold sessions and plans."""
    for key, (_, since) in list(_kept.items()):
        if len(_kept) <= KEPT_ERRORS and time.monotonic() - since < KEPT_SECONDS:
            break
        _kept.pop(key, None)  # another thread forgets as well


def _internal(error: Exception) -> InternalError:
    internal = InternalError(f"{type(error).__name__}: {error}")
    internal.__cause__ = error
    return internal


def raise_originals() -> None:
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
            if kept or key:
                return kept  # None: another process keeps it
            return _kinds()[cause.getCondition()](parameters.get("reason"), hint=parameters.get("hint"))  # raised by the shim
    return None


@lru_cache(maxsize=1)
def _kinds() -> dict[str, type[StreamTableError]]:
    return {kind.condition: kind for kind in all_errors()}
