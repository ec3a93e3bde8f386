"""Which errors a scheduler tries again, and which count at once."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.unit.jvm import Captured, Raised, java

from streamtable.errors import ConcurrentRefresh, NotIncremental, RefreshError, SourceUnavailable
from streamtable.jvm.storage import not_mounted
from streamtable.schedule.failures import LONGEST_TEXT, condition_of, is_transient, text_of


def wrapped(cause: BaseException) -> RefreshError:
    """Return the error of a refresh in which `cause` was caught."""
    error = RefreshError("Spark could not compute the refresh")
    error.__cause__ = cause
    return error


SPARK = "org.apache.spark.SparkException"
TIMEOUT = ("java.net.SocketTimeoutException", "java.io.InterruptedIOException", "java.io.IOException")
MISSING = ("java.io.FileNotFoundException", "java.io.IOException")
TAIL = java(SPARK)
TAIL.getCause = lambda: TAIL


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConcurrentRefresh("another commit came first"), True),
        (wrapped(Raised(java(*TIMEOUT))), True),
        (wrapped(Raised(java(SPARK, cause=java(SPARK, cause=java("java.io.IOException"))))), True),
        (Raised(java("java.io.IOException")), True),
        (Captured(java(SPARK, cause=java(*TIMEOUT))), True),
        (wrapped(wrapped(Raised(java(*TIMEOUT)))), True),
        (wrapped(Raised(java(*MISSING))), False),
        (wrapped(Raised(java("org.apache.hadoop.security.AccessControlException", "java.io.IOException"))), False),
        (wrapped(Raised(java("java.lang.ArithmeticException"))), False),
        (wrapped(Raised(TAIL)), False),
        (RefreshError("no cause"), False),
        (SourceUnavailable("gone"), False),
        (NotIncremental("no rule"), False),
        (ValueError("ours"), False),
    ],
)
def test_what_is_transient(error: BaseException, expected: bool) -> None:
    assert is_transient(error) is expected


def test_what_is_kept_of_an_error() -> None:
    assert condition_of(SourceUnavailable("gone")) == "STREAMTABLE_SOURCE_UNAVAILABLE"
    assert text_of(SourceUnavailable("gone", hint="restore it")) == "gone"
    assert (condition_of(ValueError("why")), text_of(ValueError("why"))) == ("ValueError", "why")
    assert text_of(ValueError("the table `r` cannot be found; line 5, pos 3;\n'Project ['r.id]\n+- 'Relation")) == (
        "the table `r` cannot be found; line 5, pos 3"
    )
    assert len(text_of(ValueError("x" * 1_000_000))) == LONGEST_TEXT + 3


def test_a_disk_that_is_gone_or_does_not_answer_is_told_from_a_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "shop.db" / "t"
    failed = not_mounted(f"file:{table}")
    assert failed and failed.reason == f"the storage failed: {table.parent}: No such file or directory"
    assert "mount the storage again" in str(failed) and "make an empty folder there" in str(failed)
    table.parent.mkdir()
    assert not_mounted(f"file:{table}") is None, "a DROP takes the name"
    table.mkdir()
    assert not_mounted(f"file:{table}/") is None
    assert not_mounted("s3a://bucket/shop.db/t") is None
    for number in (errno.ENOTCONN, errno.ESTALE, errno.EIO, errno.EACCES):

        def stat(place: Path, number: int = number) -> None:
            if place == table:
                raise OSError(number, os.strerror(number), str(place))

        monkeypatch.setattr(Path, "stat", stat)
        failed = not_mounted(f"file:{table}")
        assert failed and failed.reason == f"the storage failed: {table}: {os.strerror(number)}"
        assert "make an empty folder" not in str(failed)
