"""Consumers: each has a position in the events and at most one batch in work, which stays the same until it is finished.

Each move is one commit of the queue's table that replaces its few rows, so that of two who move at once one begins again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from streamtable.delta.commit import commit
from streamtable.delta.rows import read
from streamtable.delta.tables import state
from streamtable.errors import ConcurrentRefresh, ConsumerExists, ConsumerNotFound, near_names
from streamtable.queue.definition import CONSUMERS, Queue
from streamtable.queue.retries import Retries
from streamtable.subscriptions import micro_batches
from streamtable.subscriptions.feed import opened
from streamtable.subscriptions.subscription import schema_of

__all__ = [
    "Batch",
    "Consumer",
    "Lag",
    "consumers",
    "events",
    "finish",
    "found",
    "lag",
    "next_batch",
    "register",
    "retries",
    "schema",
    "unregister",
]

_ATTEMPTS = 10

_sessions: dict[tuple[int, str], SparkSession] = {}
"""By Spark context and queue."""


@dataclass(frozen=True)
class Consumer:
    """A row of the queue's table."""

    name: str
    position: int
    batch_end: int | None
    batches: int
    registered_at: datetime
    seen_at: datetime
    begun_at: datetime
    begun_before: datetime

    def application(self, queue: Queue) -> str:
        """Name this registration in the commits of its consumer: one that is registered anew counts its batches from 1 again."""
        return f"streamtable.queue.{queue.id}.{self.name}.{self.registered_at.timestamp():.6f}"


@dataclass(frozen=True)
class Batch:
    """The events after `start` and up to `end`; `number` counts the consumer's batches from 1."""

    queue: Queue
    consumer: Consumer
    number: int
    start: int
    end: int


@dataclass(frozen=True)
class Lag:
    """How far a consumer is behind: commits of the inputs that it has not finished."""

    consumer: Consumer
    pending_commits: int


def consumers(spark: SparkSession, queue: Queue) -> list[Consumer]:
    """Return the consumers as they are now, by name."""
    return _read(spark, queue)[1]


def register(spark: SparkSession, queue: Queue, name: str, at: int | None) -> Consumer:
    """Add a consumer that gets what comes after `at`, or after now."""
    begin = _latest(spark, queue) if at is None else at
    now = _now()
    made = Consumer(name, begin, None, 0, now, now, now, now)

    def move(known: list[Consumer]) -> list[Consumer]:
        if any(each.name == name for each in known):
            raise ConsumerExists(f"{queue} has a consumer {name} already", hint="UNREGISTER CONSUMER, or choose another name")
        return [*known, made]

    _move(spark, queue, move)
    return made


def unregister(spark: SparkSession, queue: Queue, name: str) -> None:
    """Forget a consumer and its position."""
    _move(spark, queue, lambda known: [each for each in known if each is not _found(queue, known, name)])


def next_batch(spark: SparkSession, queue: Queue, name: str) -> Batch | None:
    """Return the batch in work, or else begin one with all that came or became due since; None when nothing did."""
    latest = _latest(spark, queue)
    begun: list[Consumer] = []

    def move(known: list[Consumer]) -> list[Consumer]:
        consumer = _found(queue, known, name)
        if consumer.batch_end is None:
            now = max(_now(), consumer.begun_at.astimezone(timezone.utc))
            if latest > consumer.position or not retries(spark, queue, consumer).due(consumer.begun_at, now).isEmpty():
                end = max(latest, consumer.position)
                consumer = replace(consumer, batch_end=end, seen_at=now, begun_at=now, begun_before=consumer.begun_at)
        begun[:] = [consumer]
        return [consumer if each.name == name else each for each in known]

    _move(spark, queue, move)
    (consumer,) = begun
    if consumer.batch_end is None:
        return None
    return Batch(queue, consumer, consumer.batches + 1, consumer.position, consumer.batch_end)


def finish(spark: SparkSession, queue: Queue, name: str, number: int | None = None) -> bool:
    """Finish the batch in work (that of a `number`, if given); tell whether there was one."""
    finished = False

    def move(known: list[Consumer]) -> list[Consumer]:
        nonlocal finished
        consumer = _found(queue, known, name)
        finished = consumer.batch_end is not None and number in (None, consumer.batches + 1)
        if not finished or consumer.batch_end is None:
            return known
        done = replace(consumer, position=consumer.batch_end, batch_end=None, batches=consumer.batches + 1, seen_at=_now())
        return [done if each.name == name else each for each in known]

    _move(spark, queue, move)
    return finished


def events(spark: SparkSession, batch: Batch) -> DataFrame:
    """Return the events of a batch in the order of their times, the same whenever they are asked for."""
    rows = micro_batches.batch(_circumstances(spark, batch.queue), batch.queue.subscribe, batch.start, batch.end)
    dataset = spark._jvm.org.apache.spark.sql.classic.Dataset  # type: ignore[union-attr]
    return DataFrame(dataset.ofRows(spark._jsparkSession, rows._jdf.logicalPlan()), spark).orderBy("timestamp")


def retries(spark: SparkSession, queue: Queue, consumer: Consumer) -> Retries:
    """Return what a consumer could not do."""
    return Retries(spark, queue, consumer.application(queue), schema(spark, queue))


def schema(spark: SparkSession, queue: Queue) -> StructType:
    """Return the columns of the events."""
    return schema_of(_circumstances(spark, queue), queue.subscribe)


def lag(spark: SparkSession, queue: Queue) -> list[Lag]:
    """Return the consumers with what they have before them."""
    with opened(_circumstances(spark, queue), queue.subscribe.relation) as feed:
        inputs = feed.relation.inputs
        latest = inputs.latest()

    def pending(consumer: Consumer) -> int:
        return sum(have - done for have, done in zip(latest, inputs.times.versions(consumer.position), strict=True))

    return [Lag(each, pending(each)) for each in consumers(spark, queue)]


def _latest(spark: SparkSession, queue: Queue) -> int:
    return micro_batches.latest(_circumstances(spark, queue), queue.subscribe) or 0


def _circumstances(spark: SparkSession, queue: Queue) -> SparkSession:
    """Return a session in which names and expressions mean what they meant at CREATE QUEUE; making one takes long."""
    key = (id(spark.sparkContext), queue.id)
    session = _sessions.get(key)
    if session is None:
        session = spark.newSession()
        for setting, value in queue.settings.items():
            session.conf.set(setting, value)
        session.catalog.setCurrentCatalog(queue.namespace[0])
        session.catalog.setCurrentDatabase(queue.namespace[1])
        _sessions[key] = session
    return session


def _read(spark: SparkSession, queue: Queue) -> tuple[int, list[Consumer]]:
    version = state(spark, queue.path).version
    rows = read(spark, queue.path, version).orderBy("consumer").collect()
    return version, [Consumer(r[0], int(r[1]), None if r[2] is None else int(r[2]), *r[3:]) for r in rows]


@retry(
    retry=retry_if_exception_type(ConcurrentRefresh),
    wait=wait_random_exponential(0.1, 5),
    stop=stop_after_attempt(_ATTEMPTS),
    reraise=True,
)
def _move(spark: SparkSession, queue: Queue, change: Callable[[list[Consumer]], list[Consumer]]) -> None:
    """Replace the rows by what `change` makes of them, unless that is the same; who comes second sees what the first did."""
    version, before = _read(spark, queue)
    after = change(before)
    if after == before:
        return
    rows = spark.createDataFrame([_row(each) for each in after], CONSUMERS).coalesce(1)
    commit(spark, queue.path, read_version=version, application=queue.id, number=version + 1, add=rows, replace_all=True)


def _row(consumer: Consumer) -> tuple[object, ...]:
    name, position, batch_end, *others = astuple(consumer)
    return name, Decimal(position), None if batch_end is None else Decimal(batch_end), *others


def found(spark: SparkSession, queue: Queue, name: str) -> Consumer:
    """Return a consumer as it is now. Raises ConsumerNotFound, with near names."""
    return _found(queue, consumers(spark, queue), name)


def _found(queue: Queue, known: list[Consumer], name: str) -> Consumer:
    for each in known:
        if each.name == name:
            return each
    near = near_names(name, [each.name for each in known])
    raise ConsumerNotFound(f"{queue} has no consumer {name}.{near}", hint=f"REGISTER CONSUMER {name} ON {queue}")


def _now() -> datetime:
    return datetime.now(timezone.utc)
