"""How Spark plans the queries of a refresh, of what is read as a relation, and of operations that are replicated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from streamtable.engine import limits
from streamtable.engine.load import Load

__all__ = ["planned_for"]

_ADAPTIVE, _PARTITIONS = "spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions"


@contextmanager
def planned_for(session: SparkSession, load: Load | None) -> Iterator[None]:
    """Turn adaptive execution off in this session for a small change.

    It runs each stage as a job of its own and plans the rest again, to find out how large things are. Here that is known: the
    change is at hand, and what it touches is no more than the sources. Where these ask for many partitions it stays on, because it
    puts empty ones together and deals with skew. Spark's number of partitions is an upper bound.
    """
    adaptive, before = str(session.conf.get(_ADAPTIVE)), str(session.conf.get(_PARTITIONS))
    if (
        load is None
        or not load.small
        or (partitions := min(int(before), 2 + load.bytes // limits.PARTITION_BYTES)) > limits.ADAPTIVE_PARTITIONS
    ):
        yield
        return
    session.conf.set(_ADAPTIVE, "false")
    session.conf.set(_PARTITIONS, str(partitions))
    try:
        yield
    finally:
        session.conf.set(_ADAPTIVE, adaptive)
        session.conf.set(_PARTITIONS, before)
