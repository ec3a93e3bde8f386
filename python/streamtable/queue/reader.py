"""Queues for Python: a batch is a block that finishes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from streamtable.queue import consumers
from streamtable.queue.consumers import Batch, Lag
from streamtable.queue.definition import load
from streamtable.sql.parse import parse_name

__all__ = ["ChangeQueue", "OpenBatch"]


class OpenBatch:
    """A batch in work."""

    def __init__(self, spark: SparkSession, batch: Batch) -> None:
        self._spark, self._batch = spark, batch
        self._retries = consumers.retries(spark, batch.queue, batch.consumer)
        self._calls = 0

    @property
    def number(self) -> int:
        """Return which of the consumer's batches this is, from 1."""
        return self._batch.number

    @cached_property
    def events(self) -> DataFrame:
        """Return the events: the same whenever they are asked for, also after a crash."""
        return consumers.events(self._spark, self._batch)

    @cached_property
    def retried(self) -> DataFrame:
        """Return the events that come again, with the column `retries` behind their own."""
        return self._retries.due(self._batch.consumer.begun_before, self._batch.consumer.begun_at)

    @property
    def options(self) -> Mapping[str, str]:
        """Return what makes Delta write once per table and batch: options of a DataFrameWriter."""
        return {"txnAppId": self._batch.consumer.application(self._batch.queue), "txnVersion": str(self.number)}

    def append_to(self, table: str, rows: DataFrame | None = None) -> None:
        """Append the events, or what was made of them, to a Delta table: exactly once, however often the batch is repeated."""
        (self.events if rows is None else rows).write.format("delta").mode("append").options(**self.options).saveAsTable(table)

    def retry(self, rows: DataFrame, after_seconds: float = 0) -> None:
        """Let some of `events` or `retried` come again, in the first batch that begins so much later."""
        self._keep(rows, datetime.now(timezone.utc) + timedelta(seconds=after_seconds))

    def give_up(self, rows: DataFrame) -> None:
        """Put some of `events` or `retried` among the dead letters."""
        self._keep(rows, None)

    def _keep(self, rows: DataFrame, due: datetime | None) -> None:
        self._calls += 1  # a batch that is repeated makes the same calls
        self._retries.add(rows, due, f"retry.{self._calls}", self.number)


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

    def dead_letters(self, consumer: str) -> DataFrame:
        """Return the events that a consumer gave up, with the column `retries` behind their own."""
        return consumers.retries(self._spark, self._queue, consumers.found(self._spark, self._queue, consumer)).dead()

    @contextmanager
    def batch(self, consumer: str) -> Iterator[OpenBatch | None]:
        """Lend the batch in work, or the next one; None when there is nothing new. Left without an error, it is finished."""
        batch = consumers.next_batch(self._spark, self._queue, consumer)
        if batch is None:
            yield None
            return
        yield OpenBatch(self._spark, batch)
        consumers.finish(self._spark, self._queue, consumer, batch.number)
