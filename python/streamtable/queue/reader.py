"""Queues for Python: a batch is a block that finishes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from streamtable.queue import consumers
from streamtable.queue.consumers import Batch, Lag
from streamtable.queue.definition import load
from streamtable.sql.parse import parse_name

__all__ = ["ChangeQueue", "OpenBatch"]


@dataclass(frozen=True)
class OpenBatch:
    """A batch in work."""

    spark: SparkSession
    batch: Batch

    @property
    def number(self) -> int:
        """Return which of the consumer's batches this is, from 1."""
        return self.batch.number

    @cached_property
    def events(self) -> DataFrame:
        """Return the events: the same whenever they are asked for, also after a crash."""
        return consumers.events(self.spark, self.batch)

    @property
    def options(self) -> Mapping[str, str]:
        """Return what makes Delta write once per table and batch: options of a DataFrameWriter."""
        queue, consumer = self.batch.queue, self.batch.consumer
        return {"txnAppId": f"streamtable.queue.{queue.id}.{consumer}", "txnVersion": str(self.batch.number)}

    def append_to(self, table: str, rows: DataFrame | None = None) -> None:
        """Append the events, or what was made of them, to a Delta table: exactly once, however often the batch is repeated."""
        (self.events if rows is None else rows).write.format("delta").mode("append").options(**self.options).saveAsTable(table)


class ChangeQueue:
    """A queue that CREATE QUEUE made."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self._queue = load(spark, parse_name(name))

    def register(self, consumer: str, at: int | None = None) -> None:
        """Add a consumer that gets what comes after `at`, or after now."""
        consumers.register(self._spark, self._queue, consumer, at)

    def unregister(self, consumer: str) -> None:
        """Forget a consumer."""
        consumers.unregister(self._spark, self._queue, consumer)

    def consumers(self) -> list[Lag]:
        """Return the consumers, and how far behind each is."""
        return consumers.lag(self._spark, self._queue)

    @contextmanager
    def batch(self, consumer: str) -> Iterator[OpenBatch | None]:
        """Lend the batch in work, or the next one; None when there is nothing new. Left without an error, it is finished."""
        batch = consumers.next_batch(self._spark, self._queue, consumer)
        if batch is None:
            yield None
            return
        yield OpenBatch(self._spark, batch)
        consumers.finish(self._spark, self._queue, consumer, batch.number)
