"""Kinds of errors of the JVM: cancelled, out of memory, a missing file, a catalog in use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions import captured

from streamtable.errors import HistoryLost, NotEnabled, message_of

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject


__all__ = [
    "cancelled",
    "catalog_in_use",
    "causes",
    "interrupted",
    "java_exception",
    "lost_file",
    "missing_file",
    "out_of_memory",
    "root_cause",
]


def java_exception(error: BaseException | None) -> JavaObject | None:
    """Return the JVM's exception behind `error`, or None."""
    match error:
        case Py4JJavaError():
            return error.java_exception
        case captured.CapturedException():
            # Delta's own Python classes keep no origin, but are raised while py4j's error is handled.
            return error._origin or java_exception(error.__context__)
        case _:
            return None


def causes(java: JavaObject | None) -> Iterator[JavaObject]:
    """Yield an exception of the JVM and its causes; the chain may be a cycle."""
    for _ in range(_DEEPEST):
        if java is None:
            return
        yield java
        java = java.getCause()


def root_cause(error: BaseException) -> str:
    """Return the error of the query itself (overflow, division by zero), which Spark wraps in failures of tasks."""
    *_, cause = (None, *causes(java_exception(error)))
    return message_of(error) if cause is None else str(cause.getMessage() or cause.toString())


def catalog_in_use(error: BaseException) -> NotEnabled | None:
    """Return an error about another process that uses the embedded catalog, if `error` means that; Derby's text comes last."""
    text = "\n".join((str(error), *(str(cause) for cause in causes(java_exception(error)))))
    found = re.search(r"Failed to start database '([^']*)'", text)
    return found and NotEnabled(
        f"another process uses the catalog in {Path(found[1]).absolute().parent}, and the embedded metastore serves one process at "
        "a time",
        hint="end the other one; or let it be a server (streamtable server), and connect to it: by --remote, or by "
        "SPARK_REMOTE in a notebook, with sc://localhost:15002",
    )


def missing_file(error: BaseException) -> str | None:
    """Return Spark's text about a missing file, if `error` means that."""
    found = [java for java in causes(java_exception(error)) if java.getClass().getSimpleName() == "FileNotFoundException"]
    return str(found[-1].getMessage()) if found else None


def lost_file(error: BaseException) -> HistoryLost | None:
    """Return an error about a missing file of the history, if `error` means that."""
    missing = missing_file(error)
    return HistoryLost(f"a file of the history is gone, as after VACUUM: {missing}") if missing else None


def out_of_memory(error: BaseException) -> str | None:
    """Return Spark's text about too little memory, if `error` means that."""
    for java in causes(java_exception(error)):
        text = str(java.getMessage())
        if java.getClass().getSimpleName().endswith("OutOfMemoryError") or any(each in text for each in _TOO_LARGE):
            return text
    return None


_TOO_LARGE = (
    "spark.driver.maxResultSize",
    "Not enough memory to build and broadcast",
    "Cannot broadcast the table",
    "ExecutorLostFailure",  # of one task after the other: who kills what takes too much memory does not tell Spark
)
"""Spark's texts for too little memory: for a result in the driver, a broadcast side of a join, or a task of an executor."""


def interrupted(error: BaseException) -> bool:
    """Tell whether a call ended because its thread was interrupted, as its exception says."""
    kinds = ("InterruptedException", "ClosedByInterruptException", "InterruptedIOException")
    return any(java.getClass().getSimpleName() in kinds for java in causes(java_exception(error)))


def cancelled(error: BaseException) -> bool:
    """Tell whether a call ended because somebody cancelled its jobs, or interrupted its thread."""
    return interrupted(error) or any("[SPARK_JOB_CANCELLED]" in str(java.getMessage()) for java in causes(java_exception(error)))


_DEEPEST = 16
"""Deep enough for any wrapping of Spark's."""
