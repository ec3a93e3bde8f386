"""Errors that leave a statement: each is an error of ours, with the name of the statement's table or object."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.catalog.mounted import away
from streamtable.delta.tables import find_table
from streamtable.errors import StatementCancelled, StatementFailed, StorageFailed, StreamTableError
from streamtable.jvm.failures import cancelled, catalog_in_use, root_cause
from streamtable.jvm.storage import storage_failed
from streamtable.language.names import Name, Query
from streamtable.language.parse import AnyStatement
from streamtable.statements.mentions import mentioned

__all__ = ["named"]


@contextmanager
def named(spark: SparkSession, statement: AnyStatement) -> Iterator[None]:
    """Raise errors of Spark, Java or Python in the block as errors of ours. Errors of ours stay as they are.

    Where the storage of a table of the statement is away, that is the error, whatever was missed first.
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
    if cancelled(error):
        return StatementCancelled(f"the statement on {subject} was cancelled")
    return StatementFailed(f"the statement on {subject} failed: {root_cause(error)}")


def _away(spark: SparkSession, statement: AnyStatement) -> StorageFailed | None:
    with suppress(PySparkException):
        for parts in mentioned(statement)["names"]:
            with suppress(PySparkException, Py4JJavaError):  # no name of a table, or in no schema
                if failed := away(spark, find_table(spark, parts)):
                    return failed
    return None


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
