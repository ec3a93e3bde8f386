"""A queue is a Delta table: its properties say what its events are, its rows are the consumers and their positions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, LongType, StringType, StructField, StructType, TimestampType

from streamtable.catalog.entries import table_names
from streamtable.delta.tables import drop_files, locate, state
from streamtable.errors import QueueExists, QueueInUse, QueueNotFound, SourceUnavailable, near_names
from streamtable.refresh.prepare import captured_settings
from streamtable.sql.parse import parse
from streamtable.sql.printing import to_sql
from streamtable.sql.queue import CreateQueue, DropQueue
from streamtable.sql.statements import Name, Query
from streamtable.sql.subscribe import Subscribe
from streamtable.subscriptions.subscription import schema_of

__all__ = ["CONSUMERS", "Queue", "create", "drop", "load", "queues"]

_PROPERTY = "streamtable.queue"
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

    name: tuple[str, ...]
    path: str
    id: str
    sql: str
    namespace: tuple[str, str]
    settings: Mapping[str, str]

    @property
    def subscribe(self) -> Subscribe:
        """Return the subscription whose rows are the events."""
        statement = parse(self.sql)
        assert isinstance(statement, Subscribe), "it was printed from one"
        return statement

    def __str__(self) -> str:
        return ".".join(self.name)


def create(spark: SparkSession, statement: CreateQueue) -> Queue:
    """Make the table of a queue. Raises what is wrong with its subscription, and QueueExists."""
    located = locate(spark, statement.name.parts)
    if located.kind != "none":
        if statement.if_not_exists and (existing := _find(spark, statement.name)):
            return existing
        raise QueueExists(f"{'.'.join(located.name)} exists already", hint="choose another name, or DROP QUEUE")
    subscribe = _canonical(spark, statement.subscribe)
    schema_of(spark, subscribe)
    namespace = (spark.catalog.currentCatalog(), spark.catalog.currentDatabase())
    queue = Queue(located.name, "", uuid.uuid4().hex, to_sql(subscribe), namespace, captured_settings(spark))
    kept = {key: value for key, value in asdict(queue).items() if key not in ("name", "path")}
    builder = DeltaTable.create(spark).tableName(str(Name(located.name[1:]))).addColumns(CONSUMERS)
    builder.property(_PROPERTY, json.dumps(kept)).property("delta.checkpointInterval", "100").execute()
    return load(spark, statement.name)


def drop(spark: SparkSession, statement: DropQueue) -> Queue | None:
    """Drop a queue that nobody reads, or, by FORCE, any; None when there is none and IF EXISTS was said."""
    queue = _find(spark, statement.name) if statement.if_exists else load(spark, statement.name)
    if queue is None:
        return None
    consumers = [row["consumer"] for row in spark.table(str(Name(queue.name))).select("consumer").collect()]
    if consumers and not statement.force:
        hint = "UNREGISTER CONSUMER, or DROP QUEUE ... FORCE"
        raise QueueInUse(f"{queue} still has the consumers {', '.join(consumers)}", hint=hint)
    spark.sql(f"DROP TABLE {Name(queue.name)}")
    drop_files(spark, queue.path)
    return queue


def load(spark: SparkSession, name: Name) -> Queue:
    """Return the queue of a name. Raises QueueNotFound, with near names."""
    queue = _find(spark, name)
    if queue is None:
        full = locate(spark, name.parts).name
        known = [str(each) for each in queues(spark, full[:-1])] if len(full) == 3 else []
        raise QueueNotFound(f"there is no queue {'.'.join(full)}.{near_names('.'.join(full), known)}", hint="SHOW QUEUES")
    return queue


def queues(spark: SparkSession, namespace: Sequence[str] | None = None) -> Iterator[Queue]:
    """Yield the queues of a namespace, or of all."""
    for parts in table_names(spark, namespace):
        if queue := _find(spark, Name(parts)):
            yield queue


def _find(spark: SparkSession, name: Name) -> Queue | None:
    located = locate(spark, name.parts)
    if located.kind != "delta":
        return None
    try:
        text = state(spark, located.path).properties.get(_PROPERTY)
    except SourceUnavailable:  # its files are gone: it is nobody's
        return None
    if text is None:
        return None
    found = json.loads(text)
    return Queue(located.name, located.path, **{**found, "namespace": tuple(found["namespace"])})


def _canonical(spark: SparkSession, subscribe: Subscribe) -> Subscribe:
    """Name the relation in full: the queue is read from other sessions."""
    if isinstance(subscribe.relation, Query):
        return subscribe
    located = locate(spark, subscribe.relation.parts)
    return replace(subscribe, relation=Name(located.name)) if located.kind in ("delta", "view") else subscribe
