"""Settings by which Spark plans the queries of refreshes, of relations and of replicated operations."""

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

    Adaptive execution runs each stage as a job and plans the rest again, to learn sizes. Here the sizes are known: the change is
    computed, and it meets no more rows than the sources have. With many partitions adaptive execution stays on, because it merges
    empty partitions and handles skew. Spark's number of partitions is an upper bound.
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
