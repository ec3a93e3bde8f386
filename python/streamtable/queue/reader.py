"""Queues for Python: a batch is a block that finishes it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamtable.delta.commit import append_once
from streamtable.delta.tables import FORGETS, find_table, state, transactions
from streamtable.engine import clock
from streamtable.errors import ConsumerNotFound, InvalidStatement
from streamtable.language.names import Name
from streamtable.language.parse import parse_name
from streamtable.language.queue.ast import Limits
from streamtable.queue import appends, batches, consumers, events, history
from streamtable.queue.batches import Lag
from streamtable.queue.consumers import Batch, Consumer
from streamtable.queue.definition import RETRIES, Queue, load
from streamtable.queue.retries import Retries
from streamtable.queue.space import purge

__all__ = ["ChangeQueue", "OpenBatch"]

_log = logging.getLogger(__name__)


class OpenBatch:
    """An open batch; `info` is its record."""

    def __init__(self, spark: SparkSession, queue: Queue, consumer: Consumer, info: Batch) -> None:
        self._spark, self._queue, self._consumer, self.info = spark, queue, consumer, info
        self._retries = Retries(spark, queue, consumer)

    @property
    def number(self) -> int:
        """Return the number of the batch among the consumer's batches, from 1."""
        return self.info.number

    @cached_property
    def events(self) -> DataFrame:
        """Return the events, redelivered ones included, in the order of their times. Each call returns the same events."""
        return self._unordered.orderBy("timestamp")

    @cached_property
    def _unordered(self) -> DataFrame:
        with history.explained(self._queue, self._consumer):
            came = events.frame(self._spark, self._queue, self._consumer, self.info.start, self.info.end)
        again = self._retries.again(self.info, came.schema)
        came = came.withColumn(RETRIES, F.lit(0))
        return came if again is None else came.unionAll(again)

    @property
    def options(self) -> Mapping[str, str]:
        """Return options of a DataFrameWriter by which Delta writes once per table and batch, whatever has its number."""
        return {"txnAppId": self._application, "txnVersion": str(self.number)}

    @property
    def _application(self) -> str:
        return f"{self._consumer.application(self._queue)}.{self.info.lane}"

    def append_to(self, table: str, rows: DataFrame | None = None) -> None:
        """Append the events without `retries`, or rows made of them, to a Delta table: once, even if the batch is repeated.

        Raises HistoryLost if an older copy of the consumer's folder took its place, and the table has more than that knows of.
        Raises InvalidStatement for a table that forgets which batches it has.
        """
        written = self._unordered.drop(RETRIES) if rows is None else rows
        with history.explained(self._queue, self._consumer):
            if not self._is_in(table, written.sparkSession):
                append_once(table, written, self._application, self.number, appends.marks(self.info, self._application))

    def _is_in(self, table: str, session: SparkSession) -> bool:
        """Tell whether a table has the batch. Raises HistoryLost if it has others that the consumer does not know of."""
        located = find_table(session, parse_name(table).parts)
        if located.kind != "delta":
            return False  # it is made, or the writer says what is wrong
        if FORGETS in state(session, located.path).properties:
            message = f"{table} has the property {FORGETS}: it forgets batches, and a batch that is repeated later would come twice"
            hint = f"ALTER TABLE {table} UNSET TBLPROPERTIES ({FORGETS}), or append to another table"
            raise InvalidStatement(message, hint=hint)
        found = transactions(session, located.path, self._consumer.application(self._queue))
        return appends.has_batch(self._queue, self._consumer, self.info, table, found, self._latest)

    def _latest(self) -> Consumer | None:
        with suppress(ConsumerNotFound):
            return consumers.load(self._spark, self._queue, self._consumer.name)
        return None

    def retry(self, rows: DataFrame, after: timedelta = timedelta()) -> None:
        """Redeliver some of `events`, in the first batch that begins after the given time.

        Each event is recorded once, whatever a repeated batch calls; the first call decides when it comes.
        """
        self._retries.add(rows, clock.now() + after, self.info)

    def give_up(self, rows: DataFrame) -> None:
        """Move some of `events` to the dead letters, even events that wait for a retry."""
        self._retries.add(rows, None, self.info)


class ChangeQueue:
    """A queue that CREATE QUEUE made."""

    def __init__(self, spark: SparkSession, name: Name) -> None:
        self._spark = spark
        self._queue = load(spark, name)

    def register(self, consumer: str, at: int | None = None) -> None:
        """Add a consumer that gets the events after the time `at`, or after now."""
        batches.register(self._spark, self._queue, consumer, at)

    def unregister(self, consumer: str) -> None:
        """Delete a consumer."""
        batches.unregister(self._spark, self._queue, consumer)

    def consumers(self) -> list[Lag]:
        """Return the consumers, and how far behind each is."""
        return batches.lag(self._spark, self._queue)

    def dead_letters(self, consumer: str) -> DataFrame:
        """Return the events that a consumer gave up."""
        return self._retries(consumer).dead()

    def replay(self, consumer: str, where: str | None = None) -> int:
        """Redeliver dead letters, or those that fit a condition, in the next batch; return their number."""
        return self._retries(consumer).replay(where)

    def purge(self) -> int:
        """Delete the events of a free-standing queue that all consumers have finished; return their number."""
        return purge(self._spark, self._queue)

    @contextmanager
    def batch(
        self, consumer: str, worker: str | None = None, take_over_after: timedelta | None = None, **limits: Any
    ) -> Iterator[OpenBatch | None]:
        """Lend the open batch, or the next one, or None if there are no new events. A block that ends without an error finishes it.

        Workers of a consumer share its position, and each has a batch of its own. Limits are those of `WITH (...)` in NEXT BATCH.
        """
        found = batches.next_batch(self._spark, self._queue, consumer, worker, Limits(**limits), take_over_after)
        if found is None:
            yield None
            return
        yield OpenBatch(self._spark, self._queue, *found)
        if not batches.finish(self._spark, self._queue, consumer, worker, found[1].number):
            _log.warning("batch %s of %s was finished by somebody else", found[1].number, consumer)

    def _retries(self, consumer: str) -> Retries:
        return Retries(self._spark, self._queue, consumers.load(self._spark, self._queue, consumer))
