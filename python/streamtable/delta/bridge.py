"""The one py4j doorway to the shim's DeltaBridge, and the translation of Delta's errors into ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import JavaClass, JavaMember, is_magic_member
from py4j.protocol import STATIC_PREFIX, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions import captured
from pyspark.sql import DataFrame, SparkSession

from streamtable.errors import ConcurrentRefresh, DefinitionNotAccepted, HistoryLost, NotEnabled, SourceUnavailable
from streamtable.tracebacks import words_of

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

__all__ = [
    "SHIM",
    "JavaRows",
    "bridge",
    "cancelled",
    "catalog_in_use",
    "causes",
    "frame_of",
    "interrupted",
    "java_class",
    "java_exception",
    "lost_file",
    "missing_file",
    "out_of_memory",
    "planned",
    "root_cause",
    "translated",
]


SHIM = "org.apache.spark.sql.streamtable"
"""The package of the shim's classes, but for the DeltaBridge, which must be in Delta's."""


class _StaticMethods(JavaClass):  # type: ignore[misc]  # py4j has no types
    """A Java class, whose names in capitals are constants and all others methods: py4j's own asks the JVM each time which it is."""

    def __getattr__(self, name: str) -> Any:
        if is_magic_member(name) or name.isupper():
            return super().__getattr__(name)
        return JavaMember(name, None, STATIC_PREFIX + self._fqn, self._gateway_client)


def bridge(session: SparkSession) -> Any:
    """Return the DeltaBridge object of the session's JVM."""
    return java_class(session, "org.apache.spark.sql.delta.streamtable.DeltaBridge")


def java_class(session: SparkSession | SparkContext | type[SparkContext], name: str) -> Any:
    """Return the class of the session's JVM that has this full name.

    `session._jvm.org.apache...` would ask the JVM for each part of the name whether that is a class already: for one of ours it
    looks into all of Spark's jars more than ten times, which was a twentieth of a small refresh.
    """
    return _StaticMethods(name, session._jvm._gateway_client)  # type: ignore[union-attr]


def frame_of(session: SparkSession, java_frame: Any) -> DataFrame:
    """Wrap a Dataset of the JVM."""
    return DataFrame(java_frame, session)


def planned(session: SparkSession, query: str) -> DataFrame:
    """Let Spark analyse a query and nothing else: session.sql would carry out a command. Raises InvalidQuery for a statement."""
    return frame_of(session, java_class(session, f"{SHIM}.Queries").planned(session._jsparkSession, query))


@dataclass(frozen=True)
class JavaRows:
    """Rows that stay in the JVM: a java.util.List that only grows."""

    session: SparkSession
    list: Any

    @classmethod
    def empty(cls, session: SparkSession) -> JavaRows:
        """Return a list to be filled."""
        return cls(session, session._jvm.java.util.ArrayList())  # type: ignore[union-attr]

    def __len__(self) -> int:
        return int(self.list.size())

    def again(self) -> Any:
        """Iterate over the rows."""
        return self.list.iterator()

    def take(self, rows: Any, count: int) -> bool:
        """Move at most `count` rows from a java.util.Iterator; tell whether there were as many."""
        before = len(self)
        java_class(self.session, f"{SHIM}.Handlers").take(rows, count, self.list)
        return len(self) - before == count


def java_exception(error: BaseException | None) -> JavaObject | None:
    """Return the JVM's exception that `error` stands for, if Spark raised it."""
    match error:
        case Py4JJavaError():
            return error.java_exception
        case captured.CapturedException():
            # Delta's own Python classes keep no origin, but are raised while py4j's error is handled.
            return error._origin or java_exception(error.__context__)
        case _:
            return None


def causes(java: JavaObject | None) -> Iterator[JavaObject]:
    """Yield an exception of the JVM and its causes; the chain may bite its tail."""
    for _ in range(_DEEPEST):
        if java is None:
            return
        yield java
        java = java.getCause()


def root_cause(error: BaseException) -> str:
    """Return what failed in the query itself (overflow, division by zero), which Spark wraps in failures of tasks."""
    *_, cause = (None, *causes(java_exception(error)))
    return words_of(error) if cause is None else str(cause.getMessage() or cause.toString())


def catalog_in_use(error: BaseException) -> NotEnabled | None:
    """Say that another process uses the embedded catalog, if that is what `error` is about: Derby's own words come last."""
    text = "\n".join((str(error), *(str(cause) for cause in causes(java_exception(error)))))
    found = re.search(r"Failed to start database '([^']*)'", text)
    return found and NotEnabled(
        f"another process uses the catalog in {Path(found[1]).absolute().parent}, and the embedded metastore serves one process at "
        "a time",
        hint="end the other one; or let it be a server (streamtable server), and connect to it: by --remote, or by "
        "SPARK_REMOTE in a notebook, with sc://localhost:15002",
    )


def missing_file(error: BaseException) -> str | None:
    """Return what Spark says of a file that was to be read and is not there, if that is what `error` is about."""
    found = [java for java in causes(java_exception(error)) if java.getClass().getSimpleName() == "FileNotFoundException"]
    return str(found[-1].getMessage()) if found else None


def lost_file(error: BaseException) -> HistoryLost | None:
    """Say that a file of the history is not there any more, if that is what `error` is about."""
    missing = missing_file(error)
    return HistoryLost(f"a file of the history is gone, as after VACUUM: {missing}") if missing else None


def out_of_memory(error: BaseException) -> str | None:
    """Return what Spark says of memory that did not suffice, if that is what `error` is about."""
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
"""How Spark tells that the driver cannot hold a result, all executors the smaller side of a join, or one of them a part of it."""


def interrupted(error: BaseException) -> bool:
    """Tell whether a call ended because its thread was interrupted, which the exception says in place of the thread."""
    kinds = ("InterruptedException", "ClosedByInterruptException", "InterruptedIOException")
    return any(java.getClass().getSimpleName() in kinds for java in causes(java_exception(error)))


def cancelled(error: BaseException) -> bool:
    """Tell whether a call ended because somebody cancelled its jobs, or interrupted its thread."""
    return interrupted(error) or any("[SPARK_JOB_CANCELLED]" in str(java.getMessage()) for java in causes(java_exception(error)))


_DEEPEST = 16
"""Deep enough for any wrapping of Spark's."""

_CONFLICTS = (
    "ConcurrentModification",
    "ConcurrentAppend",
    "ConcurrentDelete",
    "ConcurrentWrite",
    "ConcurrentTransaction",
    "MetadataChanged",
    "ProtocolChanged",
)
_LOST = (
    "VersionNotFound",
    "LogFileNotFound",
    "DeltaFileNotFound",
    "DELTA_CHANGE_DATA_FILE_NOT_FOUND",
    "DELTA_VERSIONS_NOT_CONTIGUOUS",
)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise Delta's own errors about the table at `path` as ours, with Delta's text kept."""
    try:
        yield
    except (Py4JJavaError, captured.CapturedException) as error:
        cause = java_exception(error)
        if cause is None:
            raise
        text = f"{cause.getClass().getSimpleName()}: {cause.getMessage()}"
        if f"[{DefinitionNotAccepted.condition}]" in text:
            raise DefinitionNotAccepted(str(cause.getMessage()).partition("\n")[0].partition("] ")[2]) from error
        if any(mark in text for mark in _CONFLICTS):
            raise ConcurrentRefresh(
                f"another commit changed {path} while it was refreshed; nothing was written ({text})",
                hint="refresh again",
            ) from error
        if any(mark in text for mark in _LOST):
            raise HistoryLost(f"the history of {path} is not complete any more ({text})") from error
        # A file that a query misses is wrapped in the failure of a task; it may be another table's, and the reader's to judge.
        if "FileNotFound" in cause.getClass().getSimpleName() or "DELTA_TABLE_NOT_FOUND" in text:
            raise SourceUnavailable(f"there is no Delta table at {path} ({text})") from error
        raise
