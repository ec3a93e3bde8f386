"""The cursors of each session: DECLARE, FETCH, CLOSE; and SUBSCRIBE as a statement, which ends."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.delta.bridge import JavaRows
from streamtable.errors import CursorExists, CursorNotFound, near_names
from streamtable.sql.subscribe import Fetch, Subscribe
from streamtable.subscriptions.cursor import ALL, Cursor
from streamtable.subscriptions.rows import JAVA, Form

__all__ = ["close", "declare", "fetch", "schema", "subscribe"]

_cursors: dict[tuple[str, str], Cursor[Any]] = {}
"""By session and name. A session's end is not told, so that its cursors last until they are closed."""


def declare(spark: SparkSession, name: str, statement: Subscribe) -> None:
    """Begin a subscription under a name."""
    key = _key(spark, name)
    if key in _cursors:
        raise CursorExists(f"this session has a cursor {name} already", hint=f"CLOSE {name}, or choose another name")
    _cursors[key] = Cursor(spark, statement, JAVA)


def fetch(spark: SparkSession, statement: Fetch) -> JavaRows:
    """Return the next rows of a cursor."""
    rows = JavaRows.empty(spark)
    timeout = None if statement.timeout_ms is None else statement.timeout_ms / 1000
    _found(spark, statement.cursor).fetch(rows, ALL if statement.count is None else statement.count, timeout)
    return rows


def close(spark: SparkSession, name: str) -> None:
    """End a cursor."""
    _found(spark, name).subscription.close()
    del _cursors[_key(spark, name)]


def schema(spark: SparkSession, name: str) -> StructType:
    """Return the columns of a cursor's rows."""
    return _found(spark, name).subscription.schema


def subscribe(spark: SparkSession, statement: Subscribe, form: Form[Any] = JAVA) -> JavaRows:
    """Return the rows up to UP TO, which is waited for; without it those that are there now."""
    cursor = Cursor[Any](spark, statement, form)
    rows = JavaRows.empty(spark)
    try:
        cursor.drain(rows, wait=statement.up_to is not None)
    finally:
        cursor.subscription.close()
    return rows


def _key(spark: SparkSession, name: str) -> tuple[str, str]:
    return str(spark._jsparkSession.sessionUUID()), name.casefold()


def _found(spark: SparkSession, name: str) -> Cursor[Any]:
    session, folded = _key(spark, name)
    cursor = _cursors.get((session, folded))
    if cursor is None:
        known = [each for of, each in _cursors if of == session]
        hint = f"DECLARE {name} CURSOR FOR SUBSCRIBE ..."
        raise CursorNotFound(f"this session has no cursor {name}.{near_names(name, known)}", hint=hint)
    return cursor
