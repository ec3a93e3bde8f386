"""Errors of Delta become ours, whichever way they come out of the JVM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from tests.unit.jvm import Captured, Raised, java

from streamtable.delta.bridge import translated
from streamtable.errors import ConcurrentRefresh, HistoryLost, SourceUnavailable, StreamTableError
from streamtable.jvm.storage import storage_failed


@pytest.mark.parametrize("raised", [Raised, Captured])
@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("ConcurrentAppendException", "a concurrent WRITE added data", ConcurrentRefresh),
        ("ConcurrentDeleteReadException", "a concurrent DELETE", ConcurrentRefresh),
        ("MetadataChangedException", "the metadata was changed", ConcurrentRefresh),
        ("DeltaFileNotFoundException", "no file found in the directory", HistoryLost),
        ("DeltaAnalysisException", "[DELTA_TABLE_NOT_FOUND] Delta table `t` doesn't exist", SourceUnavailable),
    ],
)
def test_what_delta_raises_is_ours(raised: type[Exception], name: str, text: str, expected: type[StreamTableError]) -> None:
    java = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: name), getMessage=lambda: text)
    with pytest.raises(expected, match=f"{name}: "), translated("/t"):
        raise raised(java)


@pytest.mark.parametrize("raised", [Raised, Captured])
def test_what_is_not_delta_s_passes(raised: type[Exception]) -> None:
    java = SimpleNamespace(getClass=lambda: SimpleNamespace(getSimpleName=lambda: "OutOfMemoryError"), getMessage=lambda: "heap")
    with pytest.raises((Py4JJavaError, CapturedException)), translated("/t"):
        raise raised(java)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("java.io.IOException",), "the storage failed: IOException: it says so"),
        (("java.net.SocketException", "java.io.IOException"), "the storage failed: SocketException: it says so"),
        (("org.apache.spark.sql.delta.DeltaFileNotFoundException", "java.io.IOException"), None),  # Delta's own words
        (("java.nio.channels.ClosedByInterruptException", "java.io.IOException"), None),  # a cancelled statement
        (("org.apache.spark.SparkException",), None),
    ],
)
def test_a_bare_exception_of_the_storage_is_ours(names: tuple[str, ...], told: str | None) -> None:
    failed = storage_failed(Raised(java(*names)))
    assert (failed and failed.reason) == told
    assert storage_failed(ValueError("of Python's own")) is None
