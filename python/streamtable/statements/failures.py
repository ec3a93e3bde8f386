"""Errors that leave a statement: each is an error of ours, with the name of the statement's table or object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.catalog.mounted import away
from streamtable.delta.tables import find_table
from streamtable.errors import StatementCancelled, StatementFailed, StorageFailed, StreamTableError
from streamtable.jvm.failures import cancelled, catalog_in_use, root_cause
from streamtable.jvm.gateway import SHIM, java_class
from streamtable.jvm.storage import storage_failed
from streamtable.language.names import Name, Query
from streamtable.statements.mentions import mentioned

__all__ = ["named"]


@contextmanager
def named(spark: SparkSession, statement: object) -> Iterator[None]:
    """Raise errors of Spark, Java or Python in the block as errors of ours. Errors of ours stay as they are.

    Where the storage of a table of the statement is away, that is the error, whatever was missed first. The names in the call of a
    table function are such a statement.
    """
    try:
        yield
    except (StorageFailed, StatementCancelled):
        raise
    except StreamTableError as error:
        if failed := _away(spark, statement):
            raise failed from error
        raise
    except (PySparkException, Py4JJavaError, RecursionError) as error:
        ours = _ours(_subject(statement), error)
        if isinstance(ours, StatementFailed):
            ours = _away(spark, statement) or ours
        raise ours from error


def _ours(subject: str, error: Exception) -> StreamTableError:
    if told := catalog_in_use(error) or storage_failed(error):
        return told
    statement = f"the statement on {subject}" if subject else "the statement"
    if cancelled(error):
        return StatementCancelled(f"{statement} was cancelled")
    return StatementFailed(f"{statement} failed: {root_cause(error)}")


def _away(spark: SparkSession, statement: object) -> StorageFailed | None:
    with suppress(PySparkException, Py4JJavaError):  # what cannot be parsed is told by now
        for parts in _tables(spark, mentioned(statement)):
            with suppress(PySparkException, Py4JJavaError):  # no name of a table, or in no schema
                if failed := away(spark, find_table(spark, parts)):
                    return failed
    return None


def _tables(spark: SparkSession, found: Mapping[str, Sequence[Any]]) -> Iterator[Sequence[str]]:
    """Yield the names in a statement, and those of the tables in its queries."""
    yield from found["names"]
    for text in found["queries"]:
        for parts, *_ in json.loads(java_class(spark, f"{SHIM}.PlanReader").references(spark._jsparkSession, text)):
            yield parts


def _subject(part: object) -> str:
    """Return the first name in a statement, or the query that it follows."""
    match part:
        case Name():
            return str(part)
        case Query(text):
            return f"({text})"
        case [first, *_]:
            return _subject(first)
        case _ if is_dataclass(part):
            parts = (_subject(getattr(part, each.name)) for each in fields(part))
            return next(filter(None, parts), "") or str(getattr(part, "cursor", ""))
        case _:
            return ""
