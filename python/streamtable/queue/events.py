"""The events of a batch: the same rows at each reading."""

from __future__ import annotations

from contextlib import AbstractContextManager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from streamtable.algebra.columns import WEIGHT
from streamtable.errors import InvalidStatement, NotSupported, RefreshError, StorageFailed
from streamtable.queue import history
from streamtable.queue.consumers import Consumer
from streamtable.queue.definition import RETRIES, SCHEMA, Queue
from streamtable.sessions.internal import handed_to, lent
from streamtable.subscribing import micro_batches
from streamtable.subscribing.feed import opened
from streamtable.subscribing.output import Output
from streamtable.subscribing.relation import TIME, Relation, ids
from streamtable.subscribing.subscription import schema_of

__all__ = ["UNREADABLE", "frame", "schema", "session_context"]

UNREADABLE = (RefreshError, StorageFailed, InvalidStatement, NotSupported)
"""The errors of a queue whose source is gone, or has another meaning than at CREATE QUEUE."""

_NTH = "nth"
_NEW_ROWS = ("WRITE", "STREAMING UPDATE", "COPY INTO")
"""Operations each of whose rows is an event, also where an equal one leaves. Others may write rows anew which they do not touch."""


def schema(spark: SparkSession, queue: Queue) -> StructType:
    """Return the columns of the events. The last one is the number of redeliveries."""
    with session_context(spark, queue) as session:
        return StructType([*_captured(session, queue), StructField(RETRIES, IntegerType(), nullable=False)])


def frame(spark: SparkSession, queue: Queue, consumer: Consumer, start: int, end: int) -> DataFrame:
    """Return the events after `start` and up to `end`, unordered, without the column of redeliveries. Raises HistoryLost."""
    with session_context(spark, queue) as session:
        if start == end:  # a batch of events that come again
            return spark.createDataFrame([], StructType(_captured(session, queue)))
        with opened(session, queue.subscribe.relation) as feed:
            history.check(queue, consumer, feed.relation.inputs, end)
        if queue.free_standing:
            rows = _inserted(session, queue, start, end)
        elif queue.statement.keys_only:
            rows = _merged(session, queue, start, end)
        else:
            rows = micro_batches.batch(session, queue.subscribe, queue.columns, start, end)
        if queue.statement.schema_changes:
            changes = _schema_changes(session, queue, start, end)
            rows = rows.withColumn(SCHEMA, F.lit(None).cast("string")).unionAll(changes)
    return handed_to(spark, rows)


def session_context(spark: SparkSession, queue: Queue) -> AbstractContextManager[SparkSession]:
    """Lend a session in which names and expressions have the meaning that they had at CREATE QUEUE."""
    return lent(spark, queue.namespace, queue.settings)


def _fields(session: SparkSession, queue: Queue) -> list[StructField]:
    if not queue.free_standing:
        return list(schema_of(session, queue.subscribe))
    with opened(session, queue.subscribe.relation) as feed:
        return [StructField("timestamp", LongType(), nullable=False), *feed.relation.schema]


def _captured(session: SparkSession, queue: Queue) -> list[StructField]:
    fields = _fields(session, queue)
    if not queue.statement.schema_changes:
        return fields
    time, *others = [*fields, StructField(SCHEMA, StringType())]
    return [time, *(StructField(each.name, each.dataType) for each in others)]


def _schema_changes(session: SparkSession, queue: Queue, start: int, end: int) -> DataFrame:
    """Return an event for each commit that changed the columns of a captured table. The event holds only the new columns."""
    fields = _captured(session, queue)
    with opened(session, queue.subscribe.relation) as feed:
        steps = [step for step in feed.relation.inputs.commits(start, end) if step.schema]
    rows = session.createDataFrame([(str(step.time), step.schema) for step in steps], "time STRING, schema STRING")
    change = F.lit(0) if fields[1].dataType == LongType() else F.lit("schema")  # `diff`, or `state`
    values = [F.col("time"), change, *(F.lit(None) for _ in fields[2:-1]), F.col("schema")]
    typed = [value.cast(each.dataType).alias(each.name) for value, each in zip(values, fields, strict=True)]
    return rows.select(*typed)


def _inserted(session: SparkSession, queue: Queue, start: int, end: int) -> DataFrame:
    """Return the added rows, each as often as a commit added it. Removed rows were purged, and those of rewritten files stay."""
    with opened(session, queue.subscribe.relation) as feed:
        relation = feed.relation
        names = ids(relation.schema)
        rewriting = [step.time for step in relation.inputs.commits(start, end) if step.operation not in _NEW_ROWS]
        with feed.lent(start, end) as changes:
            came = changes.where(F.col(WEIGHT.id) > 0).where(~F.col(TIME).isin(rewriting)).select(TIME, *names)
            if rewriting:
                came = came.union(_netted(relation, changes.where(F.col(TIME).isin(rewriting))))
        return came.toDF("timestamp", *relation.schema.names)


def _netted(relation: Relation, changes: DataFrame) -> DataFrame:
    """Return the rows that came more often than they went, at the same time."""
    names = ids(relation.schema)
    columns = StructType([StructField(name, each.dataType) for name, each in zip(names, relation.schema, strict=True)])
    net = Output(columns, relation.inputs.times.type, None, progress=False).frame(changes, several=False)
    came = net.where(F.col("diff") > 0).withColumn(_NTH, F.explode(F.sequence(F.lit(1), "diff")))
    return came.select("timestamp", *names)


def _merged(session: SparkSession, queue: Queue, start: int, end: int) -> DataFrame:
    """Treat all changes as changes at one time: each key has one event, with its values in the table at `end`."""
    subscribe = queue.subscribe
    with opened(session, subscribe.relation) as feed:
        relation = feed.relation
        kind = relation.inputs.times.type
        with feed.lent(start, end) as changes:
            at_once = changes.withColumn(TIME, F.lit(str(end)).cast(kind))
            return Output(relation.schema, kind, subscribe.modifier, progress=False).frame(at_once, several=False)
