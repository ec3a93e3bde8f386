"""The mark of a catalog that may have tables IMMEDIATE: without it, no write asks for them (`Followed.scala`)."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.catalog.index import Index
from streamtable.catalog.shared import share, shared
from streamtable.jvm.failures import cancelled
from streamtable.language.stream_table.schedule import Immediate, Schedule
from streamtable.sessions.internal import new

__all__ = ["announce", "announce_again", "index"]

_KEY, _MAY_BE = "streamtable.immediate", "true"

_indices: dict[SparkContext, Index] = {}
"""What this process knows of the stream tables: the last write read it."""


def announce(spark: SparkSession, schedule: Schedule) -> None:
    """Mark the catalog before a table gets the schedule IMMEDIATE.

    The mark stays. Whoever took it away could miss a table that another process makes at the same moment.
    """
    if isinstance(schedule, Immediate):
        _indices.clear()  # the name may have been that of an ordinary table
        _mark(spark)


def announce_again(spark: SparkSession, schedule: Schedule) -> None:
    """Mark the catalog again where a table IMMEDIATE is refreshed by no write: the mark may be lost, as with an older catalog.

    Whoever may not alter the schema refreshes all the same. Who cancels the refresh cancels that too.
    """
    if isinstance(schedule, Immediate):
        try:
            _mark(spark)
        except (PySparkException, Py4JJavaError) as error:
            if cancelled(error):
                raise


def _mark(spark: SparkSession) -> None:
    if shared(spark, _KEY) != _MAY_BE:
        share(spark, _KEY, _MAY_BE)


def index(spark: SparkSession) -> Index:
    """Return the index for writes. It has a session of its own, because that of a writer may end."""
    context = spark.sparkContext
    if (found := _indices.get(context)) is None:
        _indices.clear()  # of a context that was stopped
        found = _indices[context] = Index(new(spark))
    return found
