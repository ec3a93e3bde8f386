"""Transient errors, and how lasting errors are recorded in the history of their table."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from random import random

from pyspark.sql import SparkSession

from streamtable.catalog.definition import SUSPENDED, Failure
from streamtable.catalog.entries import Entry, find_at
from streamtable.engine import clock
from streamtable.errors import ConcurrentRefresh, StreamTableError, StreamTableSuspended, message_of
from streamtable.jvm.failures import causes, java_exception
from streamtable.jvm.storage import storage_trouble
from streamtable.refresh.choose import Action
from streamtable.refresh.history import errors_in_a_row, history
from streamtable.refresh.records import MANUAL, PATIENCE, Cause, Record, annotate

__all__ = [
    "LONGEST_BACKOFF",
    "backoff",
    "condition_of",
    "failure_record",
    "is_transient",
    "recorded",
    "text_of",
    "write",
    "write_failure",
]

log = logging.getLogger("streamtable.scheduler")

LONGEST_TEXT = 2000
LONGEST_BACKOFF = 60.0


def backoff(attempt: int) -> timedelta:
    """Return the pause after an attempt. Jitter separates attempts that were in each other's way."""
    doubled = 2.0 ** min(attempt - 1, 10)
    return timedelta(seconds=min(doubled + random(), LONGEST_BACKOFF))  # noqa: S311 - nobody is to be kept from guessing


def is_transient(error: BaseException) -> bool:
    """Tell whether the same refresh may succeed soon: another commit came first, or the storage failed for a moment."""
    if isinstance(error, ConcurrentRefresh):
        return True
    return any(storage_trouble(java) for java in causes(java_exception(error))) or (
        error.__cause__ is not None and is_transient(error.__cause__)
    )


def condition_of(error: BaseException) -> str:
    """Return the error's class for programs."""
    return error.getCondition() if isinstance(error, StreamTableError) else type(error).__name__


def text_of(error: BaseException) -> str:
    """Return the error's text for people, short enough for a line."""
    text = error.reason if isinstance(error, StreamTableError) else message_of(error)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


def failure_record(error: BaseException, started: float, cause: Cause) -> Record:
    """Return the line of the history for a refresh that began at `started`, by time.perf_counter(). It ends the cause's request."""
    elapsed = round(1000 * (time.perf_counter() - started))
    reason = f"[{condition_of(error)}] {text_of(error)}"
    return Record(Action.FAILED, reason, elapsed).because_of(cause)


def write(spark: SparkSession, path: str, record: Record, suspends: Callable[[Entry], Failure | None] = lambda _: None) -> None:
    """Commit a record, with a suspension if `suspends` gives a reason. If the commit fails, the log tells it."""
    try:
        PATIENCE(_commit, spark, path, record, suspends)
    except Exception:  # a table that is gone or cannot be written
        log.exception("cannot write into the history of %s: %s", path, record)


def write_failure(spark: SparkSession, path: str, error: BaseException, record: Record, most: int) -> None:
    """Commit the record of a failure. After `most` failures in a row, counted in the history, the table is suspended."""

    def suspends(entry: Entry) -> Failure | None:
        failures = errors_in_a_row(entry, history(spark, [entry])) + 1
        at = clock.now().replace(microsecond=0)
        return Failure(text_of(error), condition_of(error), at, failures) if failures >= most else None

    write(spark, path, record, suspends)


def _commit(spark: SparkSession, path: str, record: Record, suspends: Callable[[Entry], Failure | None]) -> None:
    if entry := find_at(spark, path):
        failure = suspends(entry)
        suspended = replace(entry.definition, status=SUSPENDED, error=failure)
        annotate(spark, entry, record, suspended.properties() if failure else None)
        if failure:
            log.error("%s is suspended after %d failures in a row", entry.definition.name, failure.failures)


@contextmanager
def recorded(spark: SparkSession, path: str) -> Iterator[None]:
    """Record failures of the block in the history of the table, except StreamTableSuspended and ConcurrentRefresh."""
    started = time.perf_counter()
    try:
        yield
    except (StreamTableSuspended, ConcurrentRefresh):
        raise
    except Exception as error:
        write(spark, path, failure_record(error, started, MANUAL))
        raise
