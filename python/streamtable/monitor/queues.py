"""The statements on change queues: the columns of their results, and what carries them out."""

from __future__ import annotations

from decimal import Decimal

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, DecimalType, LongType, StringType, StructField, StructType, TimestampType

from streamtable.delta.bridge import JavaRows
from streamtable.monitor.results import Row, Rows, columns
from streamtable.queue import consumers, definition
from streamtable.sql.queue import (
    CreateQueue,
    DropQueue,
    FinishBatch,
    NextBatch,
    QueueStatement,
    RegisterConsumer,
    ShowConsumers,
    ShowQueues,
    UnregisterConsumer,
)

__all__ = ["describe_queue", "run_queue"]

_STATUS = columns(name=StringType, status=StringType)

_COLUMNS: dict[str, DataType] = {
    "consumer": StringType(),
    "position": DecimalType(38, 0),
    "batch_end": DecimalType(38, 0),
    "batches": LongType(),
    "pending_commits": LongType(),
    "registered_at": TimestampType(),
    "seen_at": TimestampType(),
}


def describe_queue(spark: SparkSession, statement: QueueStatement) -> StructType:
    """Return the columns of the statement's result."""
    match statement:
        case NextBatch(queue):
            return consumers.schema(spark, definition.load(spark, queue))
        case ShowQueues():
            return columns(name=StringType, subscribe=StringType)
        case ShowConsumers():
            return StructType([StructField(name, kind) for name, kind in _COLUMNS.items()])
        case _:
            return _STATUS


def run_queue(spark: SparkSession, statement: QueueStatement) -> Rows | JavaRows:
    """Carry the statement out and return the rows of its result."""
    match statement:
        case CreateQueue():
            return [(str(definition.create(spark, statement)), "CREATED")]
        case DropQueue():
            dropped = definition.drop(spark, statement)
            return [(str(dropped), "DROPPED")] if dropped else []
        case RegisterConsumer(consumer, queue, at):
            consumers.register(spark, definition.load(spark, queue), consumer, at)
            return [(consumer, "REGISTERED")]
        case UnregisterConsumer(consumer, queue):
            consumers.unregister(spark, definition.load(spark, queue), consumer)
            return [(consumer, "UNREGISTERED")]
        case ShowQueues(namespace):
            here = (spark.catalog.currentCatalog(), spark.catalog.currentDatabase())
            return [(str(each), each.sql) for each in definition.queues(spark, namespace.parts if namespace else here)]
        case ShowConsumers(queue):
            return [_shown(each) for each in consumers.lag(spark, definition.load(spark, queue))]
        case NextBatch(queue, consumer):
            rows = JavaRows.empty(spark)
            if batch := consumers.next_batch(spark, definition.load(spark, queue), consumer):
                rows.list.addAll(consumers.events(spark, batch)._jdf.collectAsList())
            return rows
        case FinishBatch(queue, consumer):
            finished = consumers.finish(spark, definition.load(spark, queue), consumer)
            return [(consumer, "FINISHED" if finished else "NO BATCH")]


def _shown(behind: consumers.Lag) -> Row:
    consumer = behind.consumer
    end = None if consumer.batch_end is None else Decimal(consumer.batch_end)
    times = (consumer.registered_at, consumer.seen_at)
    return (consumer.name, Decimal(consumer.position), end, consumer.batches, behind.pending_commits, *times)
