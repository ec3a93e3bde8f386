"""The cursors of each session (DECLARE, FETCH, CLOSE), and SUBSCRIBE as a statement, which ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Iterable
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.errors import CursorExists, CursorNotFound, near_names
from streamtable.jvm.gateway import JavaRows
from streamtable.language.subscribe.ast import Fetch, Subscribe
from streamtable.sessions.clients import open_sessions
from streamtable.subscribing.cursor import ALL, Cursor
from streamtable.subscribing.rows import JAVA, RowFormat

__all__ = ["close", "declare", "fetch", "number", "schema", "subscribe"]

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
"""Seconds between two polls for clients that are gone, while clients have cursors."""


@dataclass(frozen=True)
class _Declared:
    """A cursor, and whether its session belongs to a client. The end of such a session closes it."""

    cursor: Cursor[Any]
    of_client: bool


_cursors: dict[tuple[str, str], _Declared] = {}
"""By session and name."""

_looking = set[Thread]()
_lock = Lock()


def declare(spark: SparkSession, name: str, statement: Subscribe) -> None:
    """Begin a subscription under a name."""
    key = _key(spark, name)
    if key in _cursors:
        raise CursorExists(f"this session has a cursor {name} already", hint=f"CLOSE {name}, or choose another name")
    of_client = key[0] in open_sessions(spark.sparkContext)
    _cursors[key] = _Declared(Cursor(spark, statement, JAVA), of_client)
    if of_client:
        _look_after(spark.sparkContext)


def fetch(spark: SparkSession, statement: Fetch) -> JavaRows:
    """Return the next rows of a cursor."""
    rows = JavaRows.empty(spark)
    timeout = None if statement.timeout_ms is None else statement.timeout_ms / 1000
    _found(spark, statement.cursor).fetch(rows, ALL if statement.count is None else statement.count, timeout)
    return rows


def close(spark: SparkSession, name: str) -> None:
    """End a cursor."""
    _found(spark, name).subscription.close()
    _cursors.pop(_key(spark, name), None)  # the end of the session may have come first


def number() -> int:
    """Return how many cursors are open."""
    return len(_cursors)


def schema(spark: SparkSession, name: str) -> StructType:
    """Return the columns of a cursor's rows."""
    return _found(spark, name).subscription.schema


def subscribe(spark: SparkSession, statement: Subscribe, form: RowFormat[Any] = JAVA) -> JavaRows:
    """Return the rows up to UP TO, and wait for it; without UP TO, the rows so far."""
    cursor = Cursor[Any](spark, statement, form)
    rows = JavaRows.empty(spark)
    try:
        cursor.drain(rows, wait=statement.up_to is not None)
        if statement.up_to is None and not cursor.subscription.begun:
            _log.warning("AS OF %s is still to come, and without UP TO nothing is waited for: there are no rows", statement.as_of)
    finally:
        cursor.subscription.close()
    return rows


def _key(spark: SparkSession, name: str) -> tuple[str, str]:
    return str(spark._jsparkSession.sessionUUID()), name.casefold()


def _found(spark: SparkSession, name: str) -> Cursor[Any]:
    session, folded = _key(spark, name)
    declared = _cursors.get((session, folded))
    if declared is None:
        known = [each for of, each in list(_cursors) if of == session]
        hint = f"DECLARE {name} CURSOR FOR SUBSCRIBE ..."
        raise CursorNotFound(f"this session has no cursor {name}.{near_names(name, known)}", hint=hint)
    return declared.cursor


def _look_after(context: SparkContext) -> None:
    """Have a thread poll for the ends of clients' sessions, as long as clients have cursors."""
    with _lock:
        if not _looking:
            thread = Thread(target=_close_when_sessions_end, args=(context,), name="streamtable cursors", daemon=True)
            _looking.add(thread)
            thread.start()


def _close_when_sessions_end(context: SparkContext) -> None:
    while True:
        time.sleep(_LOOK_SECONDS)
        with _lock:
            followed = [key for key, declared in list(_cursors.items()) if declared.of_client]
            if not followed:
                _looking.clear()
                return
        try:
            _close_ended(followed, open_sessions(context))
        except Exception:  # whatever it is, the next look must come
            _log.exception("the cursors of sessions that have ended could not be closed")


def _close_ended(followed: Iterable[tuple[str, str]], remaining: Container[str]) -> None:
    for key in followed:
        if key[0] not in remaining and (ended := _cursors.pop(key, None)):
            ended.cursor.subscription.close()
