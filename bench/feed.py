"""The other side of the measurements: Delta's own change feed, read by Structured Streaming and written by foreachBatch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

PATIENCE = 600


def latest(spark: SparkSession, table: str) -> int:
    """Return the latest version of a table."""
    return int(spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"])


class Arrivals:
    """When which version of a table was there for its reader."""

    def __init__(self) -> None:
        self._found: list[tuple[int, float]] = []
        self._changed = threading.Condition()

    def add(self, version: int, at: float | None = None) -> None:
        """Say that all versions up to this one are there, since now if nothing else is said."""
        with self._changed:
            self._found.append((version, time.perf_counter() if at is None else at))
            self._changed.notify_all()

    def wait(self, version: int) -> float:
        """Return when the version was there first, as time.perf_counter() counts."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(v >= version for v, _ in self._found), PATIENCE), f"{version} is missing"
            return next(at for v, at in self._found if v >= version)


class Feed:
    """The change feed of a table from a version on, handed to `write` batch by batch; a checkpoint says where to go on."""

    def __init__(self, spark: SparkSession, table: str, name: str, write: Callable[[DataFrame, int], None], start: int = 0) -> None:
        feed = spark.readStream.option("readChangeFeed", "true").option("startingVersion", start).table(table)
        folder = Path("checkpoints", name).resolve()
        self.arrivals, self._apply = Arrivals(), write
        self._writer = feed.writeStream.option("checkpointLocation", str(folder)).foreachBatch(self._write)

    def _write(self, batch: DataFrame, number: int) -> None:
        self._apply(batch, number)
        at = time.perf_counter()  # what follows is the measurement's own
        version = batch.agg({"_commit_version": "max"}).collect()[0][0]
        if version is not None:
            self.arrivals.add(version, at)

    def backlog(self) -> None:
        """Read all that is there."""
        self._writer.trigger(availableNow=True).start().awaitTermination()

    @contextmanager
    def following(self) -> Iterator[Arrivals]:
        """Read what comes."""
        stream = self._writer.trigger(processingTime="0 seconds").start()
        try:
            yield self.arrivals
        finally:
            stream.stop()


def append_to(sink: str) -> Callable[[DataFrame, int], None]:
    """Return what appends each batch to a Delta table, once."""

    def write(batch: DataFrame, number: int) -> None:
        once = {"txnAppId": "feed", "txnVersion": str(number)}  # a batch is repeated when the stream was stopped before its end
        batch.write.format("delta").mode("append").options(**once).saveAsTable(sink)

    return write
