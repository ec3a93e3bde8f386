"""The shim's DeltaBridge, and the translation of Delta's errors into ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions import captured
from pyspark.sql import SparkSession

from streamtable.errors import ConcurrentRefresh, DefinitionNotAccepted, HistoryLost, NotSupported, SourceUnavailable
from streamtable.jvm.failures import java_exception
from streamtable.jvm.gateway import java_class
from streamtable.jvm.storage import storage_failed

__all__ = ["bridge", "translated"]


def bridge(session: SparkSession) -> Any:
    """Return the DeltaBridge object of the session's JVM."""
    return java_class(session, "org.apache.spark.sql.delta.streamtable.DeltaBridge")


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
        for ours in (DefinitionNotAccepted, HistoryLost, NotSupported):
            if f"[{ours.condition}]" in text:
                reason, _, hint = str(cause.getMessage()).partition("] ")[2].partition("\nWhat to do: ")
                raise ours(reason, hint=hint.partition("\n")[0]) from error
        if "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED" in text:
            raise NotSupported(
                f"the table at {path} has the table feature catalogManaged of Delta: a catalog keeps its commits ({text})",
                hint="copy the table to one without the feature",
            ) from error
        if any(mark in text for mark in _CONFLICTS):
            raise ConcurrentRefresh(
                f"another commit changed {path} while it was refreshed; nothing was written ({text})",
                hint="refresh again",
            ) from error
        if any(mark in text for mark in _LOST):
            raise HistoryLost(f"the history of {path} is not complete any more ({text})") from error
        # For a file that Java may not read or make, Java says that it is not found.
        if "FileNotFound" in cause.getClass().getSimpleName() and (failed := storage_failed(error)):
            raise failed from error
        # A task that misses a file wraps the error. The file may belong to another table, so the reader of the task decides.
        if "FileNotFound" in cause.getClass().getSimpleName() or "DELTA_TABLE_NOT_FOUND" in text:
            raise SourceUnavailable(f"there is no Delta table at {path} ({text})") from error
        raise
