"""A queue is a Delta table: its properties say what its events are, its rows are the consumers and their positions."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType, TimestampType

from streamtable.catalog import objects
from streamtable.catalog.objects import Kind, Stored
from streamtable.delta.tables import locate
from streamtable.errors import QueueExists, QueueInUse, QueueNotFound
from streamtable.refresh.prepare import captured_settings
from streamtable.sql.parse import parse
from streamtable.sql.printing import to_sql
from streamtable.sql.queue import CreateQueue, DropQueue
from streamtable.sql.statements import Name, Query
from streamtable.sql.subscribe import Subscribe
from streamtable.subscriptions.subscription import schema_of

__all__ = ["CONSUMERS", "Queue", "create", "drop", "load", "queues"]

QUEUE = Kind("queue", "SHOW QUEUES", QueueExists, QueueNotFound)
_TIME = DecimalType(38, 0)

CONSUMERS = StructType(
    [
        StructField("consumer", StringType(), nullable=False),
        StructField("position", _TIME, nullable=False),
        StructField("batch_end", _TIME),
        StructField("batches", LongType(), nullable=False),
        StructField("registered_at", TimestampType(), nullable=False),
        StructField("seen_at", TimestampType(), nullable=False),
        StructField("begun_at", TimestampType(), nullable=False),
        StructField("begun_before", TimestampType(), nullable=False),
    ]
)
"""The rows of a queue's table: all up to `position` is done, up to `batch_end` is in work; `batches` were finished.

`begun_at` is when the latest batch was begun, `begun_before` when the one before it was."""


@dataclass(frozen=True)
class Queue:
    """What CREATE QUEUE said, and in which circumstances names and expressions are read; `id` marks the queue's commits."""

    stored: Stored
    id: str
    sql: str
    namespace: tuple[str, str]
    settings: Mapping[str, str]

    @classmethod
    def of(cls, stored: Stored) -> Queue:
        """Read it from its table."""
        return cls(stored, **{**stored.content, "namespace": tuple(stored.content["namespace"])})

    @property
    def path(self) -> str:
        """Return where its table is."""
        return self.stored.path

    @property
    def subscribe(self) -> Subscribe:
        """Return the subscription whose rows are the events."""
        statement = parse(self.sql)
        assert isinstance(statement, Subscribe), "it was printed from one"
        return statement

    def __str__(self) -> str:
        return str(self.stored)


def create(spark: SparkSession, statement: CreateQueue) -> Queue:
    """Make the table of a queue. Raises what is wrong with its subscription, and QueueExists."""
    if statement.if_not_exists and (existing := objects.find(spark, QUEUE, statement.name)):
        return Queue.of(existing)
    objects.free(spark, QUEUE, statement.name)
    subscribe = _canonical(spark, statement.subscribe)
    schema_of(spark, subscribe)
    content = {
        "id": uuid.uuid4().hex,
        "sql": to_sql(subscribe),
        "namespace": (spark.catalog.currentCatalog(), spark.catalog.currentDatabase()),
        "settings": captured_settings(spark),
    }
    return Queue.of(objects.create(spark, QUEUE, statement.name, content, CONSUMERS))


def drop(spark: SparkSession, statement: DropQueue) -> Stored | None:
    """Drop a queue that nobody reads, or, by FORCE, any; None when there is none and IF EXISTS was said."""
    stored = objects.wanted(spark, QUEUE, statement.name, statement.if_exists)
    if stored is None:
        return None
    consumers = [row["consumer"] for row in spark.table(str(Name(stored.name))).select("consumer").collect()]
    if consumers and not statement.force:
        hint = "UNREGISTER CONSUMER, or DROP QUEUE ... FORCE"
        raise QueueInUse(f"{stored} still has the consumers {', '.join(consumers)}", hint=hint)
    objects.drop(spark, stored)
    return stored


def load(spark: SparkSession, name: Name) -> Queue:
    """Return the queue of a name. Raises QueueNotFound, with near names."""
    return Queue.of(objects.load(spark, QUEUE, name))


def queues(spark: SparkSession, namespace: Sequence[str] | None = None) -> Iterator[Queue]:
    """Yield the queues of a namespace, or of all."""
    return map(Queue.of, objects.every(spark, QUEUE, namespace))


def _canonical(spark: SparkSession, subscribe: Subscribe) -> Subscribe:
    """Name the relation in full: the queue is read from other sessions."""
    if isinstance(subscribe.relation, Query):
        return subscribe
    located = locate(spark, subscribe.relation.parts)
    return replace(subscribe, relation=Name(located.name)) if located.kind in ("delta", "view") else subscribe
