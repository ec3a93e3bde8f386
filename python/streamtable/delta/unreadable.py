"""Tables that cannot be read just now or at all: a forbidden or broken log, a protocol or a definition of a later version.

A request for one table raises the error. A request for many tables leaves the table out, so that it does not hide the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.delta.tables import Version, versions
from streamtable.errors import message_of
from streamtable.jvm.failures import interrupted, java_exception

__all__ = ["Unreadable", "left_out", "versions_or_why"]

log = logging.getLogger("streamtable.catalog")

# Our own properties may be broken too; then Python's own errors are raised.
_ERRORS = (PySparkException, Py4JJavaError, LookupError, TypeError, ValueError, RecursionError)

_told = set[str]()


@dataclass(frozen=True)
class Unreadable:
    """The reason why a table cannot be read."""

    reason: str


@contextmanager
def left_out(name: str, reads_all: bool = True) -> Iterator[list[str]]:
    """Go on without a table that cannot be read, and give a list for the reason.

    A warning is logged once, until the table can be read again: a block that reads all of it tells that.
    """
    why = list[str]()
    try:
        yield why
    except _ERRORS as error:
        if interrupted(error):
            raise
        why.append(_reason(error))
        if name not in _told:
            _told.add(name)
            log.warning("%s cannot be read and is left out: %s", name, _reason(error))
    else:
        if reads_all:
            _told.discard(name)


def versions_or_why(session: SparkSession, paths: Sequence[str]) -> tuple[Version | Unreadable | None, ...]:
    """Read the latest versions of many tables; None for a path without a Delta table."""
    try:
        return versions(session, paths)
    except _ERRORS as error:
        if interrupted(error):
            raise
    return tuple(_version_or_why(session, path) for path in paths)


def _version_or_why(session: SparkSession, path: str) -> Version | Unreadable | None:
    try:
        return versions(session, [path])[0]
    except _ERRORS as error:
        if interrupted(error):
            raise
        return Unreadable(_reason(error))


def _reason(error: BaseException) -> str:
    java = java_exception(error) if isinstance(error, Py4JJavaError) else None
    return f"{java.getClass().getSimpleName()}: {java.getMessage()}" if java else message_of(error)
