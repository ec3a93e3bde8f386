"""Errors of Delta become ours, whichever way they come out of the JVM."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from tests.unit.jvm import Captured, Raised, java

from streamtable.delta.bridge import translated
from streamtable.errors import ConcurrentRefresh, HistoryLost, SourceUnavailable, StorageFailed, StreamTableError
from streamtable.jvm.storage import cannot_write, storage_failed


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


SPARK, IO = "org.apache.spark.SparkException", "java.io.IOException"


def test_a_file_that_cannot_be_made_is_no_missing_table() -> None:
    error = Raised(java("java.io.FileNotFoundException", IO, says="/t/_delta_log/.0.json.tmp (Read-only file system)"))
    with pytest.raises(StorageFailed, match=r"^\[\w+\] the storage failed: .*Read-only file system"), translated("/t"):
        raise error
    with pytest.raises(SourceUnavailable), translated("/t"):
        raise Raised(java("java.io.FileNotFoundException", IO, says="/t/_delta_log/0.json (No such file or directory)"))


def test_what_spark_quotes_of_a_row_is_not_what_the_storage_says() -> None:
    quoted = java("org.apache.spark.SparkNumberFormatException", says="the value 'No space left on device' is no INT")
    for error in (Raised(quoted), Captured(java(SPARK, says="Lost task: No space left on device", cause=quoted))):
        assert storage_failed(error) is None
        assert not cannot_write(error)
    full = java(SPARK, says="Job aborted", cause=java(IO, says="/disk: No space left on device"))
    failed = storage_failed(Raised(full))
    assert failed is not None and "No space left on device" in failed.reason
    assert cannot_write(Raised(full))
    assert not cannot_write(Raised(java(IO, says="Input/output error")))
