"""Which errors a scheduler tries again, and which count at once."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from tests.unit.jvm import Captured, Raised, java

from streamtable.catalog import mounted
from streamtable.delta.tables import Located
from streamtable.errors import (
    ConcurrentRefresh,
    NotIncremental,
    QueueNotFound,
    RefreshError,
    SourceUnavailable,
    StatementCancelled,
    StreamTableError,
)
from streamtable.jvm.storage import not_mounted
from streamtable.language.parse import parse
from streamtable.schedule.failures import LONGEST_TEXT, condition_of, is_transient, text_of
from streamtable.statements import failures


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


def test_a_disk_that_is_not_mounted_is_told_in_place_of_what_was_missed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = cast("SparkSession", None)
    home = tmp_path / "shop.db"
    monkeypatch.setattr(failures, "find_table", lambda spark, parts: Located(tuple(parts), "delta", f"file:{home}/q"))

    def told(missed: StreamTableError) -> StreamTableError:
        with pytest.raises(StreamTableError) as caught, failures.named(spark, parse("REGISTER CONSUMER v ON q")):
            raise missed
        return caught.value

    missed, given_up = QueueNotFound("there is no queue q"), StatementCancelled("the statement was cancelled")
    assert told(missed).reason == f"the storage failed: {home}: No such file or directory"
    assert told(given_up) is given_up
    home.mkdir()
    assert told(missed) is missed


def test_a_path_that_nobody_knows_is_misspelt_unless_a_disk_could_be_mounted_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a typo in delta.`/typo/x` was that the storage is not mounted."""
    missed = QueueNotFound("there is no queue there")
    place = tmp_path / "disk" / "shop.db" / "q"
    (tmp_path / "notes.txt").write_text("mine")
    name = ("spark_catalog", "delta", f"file:{place}")
    monkeypatch.setattr(failures, "find_table", lambda spark, parts: Located(name, "delta", name[-1]))

    def told() -> StreamTableError:
        with (
            pytest.raises(StreamTableError) as caught,
            failures.named(cast("SparkSession", None), parse("REGISTER CONSUMER v ON q")),
        ):
            raise missed
        return caught.value

    assert told() is missed, "other files are where its folders would be"
    (tmp_path / "disk").mkdir()
    assert told().reason == f"the storage failed: {place.parent}: No such file or directory", "an empty folder, as of a mount"
    (tmp_path / "disk").rmdir()
    (tmp_path / "disk").write_text("a file")
    assert told() is missed
    located = Located(("spark_catalog", "shop", "q"), "delta", name[-1])
    assert mounted.away(cast("SparkSession", None), located), "the catalog knows a table there"


def test_a_schema_without_a_folder_is_away_where_tables_were_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark, tables = cast("SparkSession", None), list[tuple[str, ...]]()
    home = f"file:{tmp_path}/shop.db"
    monkeypatch.setattr(mounted, "home_of", lambda spark, name: home)
    monkeypatch.setattr(mounted, "table_names", lambda spark, namespace: tables)
    monkeypatch.setattr(mounted, "find_table", lambda spark, parts: Located(tuple(parts), "delta", f"{home}/{parts[-1]}"))
    name = ("spark_catalog", "shop", "new")
    assert mounted.home_away(spark, name) is None, "the first table makes the folder"
    tables.append(("spark_catalog", "shop", "st"))
    assert mounted.home_away(spark, name) and mounted.home_away(spark, ("spark_catalog", "shop", ""))
    (tmp_path / "shop.db").mkdir()
    assert mounted.home_away(spark, name) is None
