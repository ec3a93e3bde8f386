"""The statements on change queues: the columns of their results, and the functions that carry them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DecimalType, DoubleType, LongType, StringType, StructField, StructType, TimestampType

from streamtable.engine import clock
from streamtable.errors import InvalidStatement
from streamtable.jvm.gateway import JavaRows
from streamtable.jvm.handles import namespace_of
from streamtable.language.names import Name
from streamtable.language.queue.ast import (
    AlterQueue,
    CreateQueue,
    DropQueue,
    FinishBatch,
    GiveUpEvents,
    NextBatch,
    PurgeQueue,
    QueueStatement,
    Reader,
    RegisterConsumer,
    ReplayDeadLetters,
    RetryEvents,
    ShowConsumers,
    ShowDeadLetters,
    ShowQueues,
    UnregisterConsumer,
)
from streamtable.language.write import to_sql
from streamtable.observe.results import Row, Rows, columns
from streamtable.queue import batches, consumers, definition, events, history, space
from streamtable.queue.batches import Lag
from streamtable.queue.limits import MOST_HELD, bearable, held
from streamtable.queue.reader import OpenBatch
from streamtable.queue.retries import Retries, chosen_by, dead_schema

__all__ = ["describe_queue", "run_queue"]

_STATUS = columns(name=StringType, status=StringType)
_COUNTED = columns(name=StringType, events=LongType)

_TIME = DecimalType(38, 0)
_CONSUMERS = StructType(
    [
        StructField("consumer", StringType()),
        StructField("position", _TIME),
        StructField("batches", LongType()),
        StructField("pending_commits", LongType()),
        StructField("pending_events", LongType()),
        StructField("lag_seconds", DoubleType()),
        StructField("registered_at", TimestampType()),
        StructField("seen_at", TimestampType()),
        StructField("worker", StringType()),
        StructField("batch", LongType()),
        StructField("batch_end", _TIME),
        StructField("taken_at", TimestampType()),
    ]
)
"""A consumer, and each of its open batches."""


def describe_queue(spark: SparkSession, statement: QueueStatement) -> StructType:
    """Return the columns of the statement's result."""
    match statement:
        case NextBatch(Reader(queue)):
            return events.schema(spark, definition.load(spark, queue))
        case ShowDeadLetters(queue):
            return dead_schema(spark, definition.load(spark, queue))
        case ShowQueues():
            return columns(name=StringType, statement=StringType)
        case ShowConsumers():
            return _CONSUMERS
        case PurgeQueue() | ReplayDeadLetters():
            return _COUNTED
        case _:
            return _STATUS


def run_queue(spark: SparkSession, statement: QueueStatement) -> Rows | JavaRows:
    """Carry the statement out and return the rows of its result."""
    match statement:
        case CreateQueue():
            return [(str(definition.create(spark, statement)), "CREATED")]
        case AlterQueue():
            return [(str(batches.alter(spark, statement)), "ALTERED")]
        case DropQueue():
            dropped = batches.drop(spark, statement)
            return [(str(dropped), "DROPPED")] if dropped else []
        case PurgeQueue(name):
            queue = definition.load(spark, name)
            return [(str(queue), space.purge(spark, queue))]
        case ShowQueues(namespace):
            here = namespace_of(spark)
            known = definition.queues(spark, namespace.parts if namespace else here)
            return [(str(each), to_sql(each.statement)) for each in known]
        case ShowConsumers(name):
            return [row for each in batches.lag(spark, definition.load(spark, name)) for row in _shown(each)]
        case RegisterConsumer(consumer, name, at):
            batches.register(spark, definition.load(spark, name), consumer, at)
            return [(consumer, "REGISTERED")]
        case UnregisterConsumer(consumer, name):
            batches.unregister(spark, definition.load(spark, name), consumer)
            return [(consumer, "UNREGISTERED")]
        case ShowDeadLetters(name, consumer):
            ways = f'they are a DataFrame in Python: open_queue(spark, "{name}").dead_letters("{consumer}")'
            return _few(_retries(spark, name, consumer).dead(), MOST_HELD, f"{consumer} has given up", ways)
        case ReplayDeadLetters(name, consumer, where):
            return [(consumer, _retries(spark, name, consumer).replay(where))]
        case _:
            return _run_batch(spark, statement)


def _run_batch(spark: SparkSession, statement: NextBatch | FinishBatch | RetryEvents | GiveUpEvents) -> Rows | JavaRows:
    reader = statement.reader
    queue, consumer, worker = definition.load(spark, reader.queue), reader.consumer, reader.worker
    match statement:
        case NextBatch(_, limits, take_over_after):
            bounded = held(batches.together(queue.statement.limits, limits))
            found = batches.next_batch(spark, queue, consumer, worker, bounded, take_over_after)
            if found is None:
                return JavaRows.empty(spark)
            most = bearable(bounded)
            whose = ", ".join(f'"{each}"' for each in (consumer, worker) if each is not None)
            python = f'a batch is a DataFrame in Python: open_queue(spark, "{queue}").batch({whose})'
            ways = f"{python}; or allow more: {to_sql(replace(statement, limits=replace(limits, max_count=10 * most)))}"
            with history.explained(queue, found[0]):
                return _few(OpenBatch(spark, queue, *found).events, most, f"batch {found[1].number} of {consumer} has", ways)
        case FinishBatch(_, number):
            finished = batches.finish(spark, queue, consumer, worker, number)
            return [(consumer, "FINISHED" if finished else "NO BATCH")]
        case RetryEvents(_, where, after):
            _put_off(spark, queue, reader, where, after)
            return [(consumer, "TO BE RETRIED")]
        case GiveUpEvents(_, where):
            _put_off(spark, queue, reader, where, None)
            return [(consumer, "GIVEN UP")]


def _put_off(spark: SparkSession, queue: definition.Queue, reader: Reader, where: str | None, after: timedelta | None) -> None:
    """Put events of the open batch off; each is recorded once."""
    consumer = consumers.load(spark, queue, reader.consumer)
    batch = consumer.batch_of(reader.worker)
    if batch is None:
        raise InvalidStatement(f"{consumer.name} has no batch of {queue} in work", hint="NEXT BATCH begins one")
    rows = OpenBatch(spark, queue, consumer, batch).events
    due = None if after is None else clock.now() + after
    Retries(spark, queue, consumer).add(chosen_by(where, rows), due, batch)


def _retries(spark: SparkSession, name: Name, consumer: str) -> Retries:
    queue = definition.load(spark, name)
    return Retries(spark, queue, consumers.load(spark, queue, consumer))


def _few(events_: DataFrame, most: int, what: str, ways: str) -> JavaRows:
    """Return the events, which the driver holds until the client has them. Raises InvalidStatement for more than `most`."""
    rows = JavaRows(events_.sparkSession, events_.limit(most + 1)._jdf.collectAsList())
    if len(rows) > most:
        raise InvalidStatement(f"{what} more than {most:,} events, which are too many for one answer", hint=ways)
    return rows


def _shown(lag: Lag) -> Iterator[Row]:
    consumer = lag.consumer
    done = consumer.batches - len(consumer.in_work)
    behind = (lag.pending_commits, lag.pending_events, None if lag.age is None else lag.age.total_seconds())
    of_all = (consumer.name, Decimal(consumer.finished), done, *behind, consumer.registered_at, consumer.seen_at)
    for batch in consumer.in_work:
        yield (*of_all, batch.worker, batch.number, Decimal(batch.end), batch.taken_at)
    if not consumer.in_work:
        yield (*of_all, None, None, None, None)
