"""Operations on consumers: register, unregister, begin a batch, finish a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.kinds import QUEUE, CatalogObject
from streamtable.engine import clock
from streamtable.errors import ConsumerExists, InvalidStatement, QueueInUse
from streamtable.language.queue.ast import AlterQueue, DropQueue, Limits
from streamtable.language.write import to_sql
from streamtable.queue import consumers, history
from streamtable.queue.consumers import Batch, Consumer
from streamtable.queue.definition import Queue
from streamtable.queue.events import UNREADABLE, session_context
from streamtable.queue.limits import cut
from streamtable.queue.retries import Retries, reclaim
from streamtable.queue.space import purge_now_and_then, reclaim_now_and_then
from streamtable.subscribing.feed import opened
from streamtable.subscribing.inputs import Step

__all__ = ["Lag", "alter", "drop", "finish", "lag", "next_batch", "register", "together", "unregister"]

_REMOVE = ("DELETE", "TRUNCATE")
"""Operations that bring no rows."""


@dataclass(frozen=True)
class Lag:
    """How far a consumer is behind: its unfinished commits, and the age of the first. None where the source cannot be read."""

    consumer: Consumer
    pending_commits: int | None = None
    pending_events: int | None = None
    age: timedelta | None = None


@consumers.patiently
def alter(spark: SparkSession, statement: AlterQueue) -> CatalogObject:
    """Give a queue other limits, which apply from the next batch on."""
    if statement.accept:
        return objects.accept_definition(spark, QUEUE, statement.name)
    stored = objects.load(spark, QUEUE, statement.name)
    before = Queue.of(stored).statement
    limits = replace(together(before.limits, statement.limits), **dict.fromkeys(statement.without))
    return objects.change(spark, stored, {**stored.content, "sql": to_sql(replace(before, limits=limits))})


def drop(spark: SparkSession, statement: DropQueue) -> CatalogObject | None:
    """Drop a queue without consumers, or any queue by FORCE. Returns None for a missing queue and IF EXISTS."""
    stored = objects.wanted(spark, QUEUE, statement.name, statement.if_exists)
    if stored is None:
        return None
    known = [each.name for each in consumers.of(spark, Queue.of(stored))]
    if known and not statement.force:
        hint = "UNREGISTER CONSUMER, or DROP QUEUE ... FORCE"
        raise QueueInUse(f"{stored} still has the consumers {', '.join(known)}", hint=hint)
    objects.drop(spark, stored)
    return stored


def register(spark: SparkSession, queue: Queue, name: str, at: int | None) -> Consumer:
    """Add a consumer that gets the events after the time `at`, or after now."""
    now = clock.now()
    with session_context(spark, queue) as session, opened(session, queue.subscribe.relation) as feed:
        inputs = feed.relation.inputs
        latest, ids = inputs.latest(), inputs.ids
        if at is not None and not inputs.times.reached(at, latest):
            hint = f"{inputs.times.of(latest)} is the latest; without AT, {name} gets what comes from now on"
            raise InvalidStatement(f"{queue} has not come to the time {at}", hint=hint)
        position = inputs.times.of(latest) if at is None else at
        commits = inputs.commits_of(position)
    made = Consumer(name, position, 0, now, now, now, tables=ids, commits=commits)

    def change(before: Consumer | None) -> Consumer:
        if before is not None:
            raise ConsumerExists(f"{queue} has a consumer {name} already", hint="UNREGISTER CONSUMER, or choose another name")
        return made

    consumers.move(spark, queue, name, change)
    return made


def unregister(spark: SparkSession, queue: Queue, name: str) -> None:
    """Delete a consumer and its position."""

    def change(found: Consumer | None) -> None:
        consumers.there(spark, queue, name, found)

    consumers.move(spark, queue, name, change)
    reclaim(spark, queue)


def next_batch(
    spark: SparkSession,
    queue: Queue,
    name: str,
    worker: str | None = None,
    limits: Limits = Limits(),  # noqa: B008  (it is frozen)
    take_over_after: timedelta | None = None,
) -> tuple[Consumer, Batch] | None:
    """Return the worker's open batch, or a batch that another worker has had for too long, or else begin one.

    None if no events, or not enough events, came or became due.
    """
    limits = together(queue.statement.limits, limits)

    def change(found: Consumer | None) -> Consumer:
        before = consumers.there(spark, queue, name, found)
        now, after = max(clock.now(), before.begun_at), before
        if before.batch_of(worker) is None:
            if take_over_after is not None:
                after = before.take_over(worker, now - take_over_after, now)
            if after is before:
                after = _begun(spark, queue, before, worker, limits, now)
        return after

    _, consumer = consumers.move(spark, queue, name, change)
    assert consumer is not None, "it was found, and stays"
    batch = consumer.batch_of(worker)
    return None if batch is None else (consumer, batch)


def finish(spark: SparkSession, queue: Queue, name: str, worker: str | None = None, number: int | None = None) -> bool:
    """Finish the worker's batch (that of a `number`, if given); tell whether there was one."""

    def change(found: Consumer | None) -> Consumer:
        return consumers.there(spark, queue, name, found).finish(worker, number, clock.now())

    before, after = consumers.move(spark, queue, name, change)
    if before is None or after is None or before == after:
        return False
    purge_now_and_then(spark, queue, before.finished, after.finished)
    for each in before.in_work:
        if each not in after.in_work:
            reclaim_now_and_then(spark, queue, each)
    return True


def lag(spark: SparkSession, queue: Queue) -> list[Lag]:
    """Return the consumers and how far each is behind."""
    try:
        return _behind(spark, queue)
    except UNREADABLE:
        return [Lag(each) for each in consumers.of(spark, queue)]


def _behind(spark: SparkSession, queue: Queue) -> list[Lag]:
    now = clock.now()
    with session_context(spark, queue) as session, opened(session, queue.subscribe.relation) as feed:
        inputs = feed.relation.inputs
        latest = inputs.times.of(inputs.latest())

        def behind(consumer: Consumer) -> Lag:
            if history.recreated(consumer, inputs, consumer.finished):
                return Lag(consumer)
            steps = _own(queue, inputs.commits(consumer.finished, latest, complete=False))
            pending = [step for step in steps if step.events]
            age = max(now - pending[0].at, timedelta()) if pending else timedelta()
            return Lag(consumer, len(pending), sum(step.events for step in pending), age)

        return [behind(each) for each in consumers.of(spark, queue)]


def _begun(spark: SparkSession, queue: Queue, consumer: Consumer, worker: str | None, limits: Limits, now: datetime) -> Consumer:
    with (
        session_context(spark, queue) as session,
        opened(session, queue.subscribe.relation) as feed,
        history.explained(queue, consumer),
    ):
        inputs = feed.relation.inputs
        history.check(queue, consumer, inputs, consumer.position)
        latest = inputs.times.of(inputs.latest())
        steps = _own(queue, inputs.commits(consumer.position, latest)) if latest > consumer.position else []
        end, begins = cut(consumer.position, steps, limits, now)
        same = end == consumer.position and consumer.commits
        commits = consumer.commits if same else inputs.commits_of(end)
        consumer = replace(consumer, tables=inputs.ids, commits=commits)
    retries = Retries(spark, queue, consumer)
    begun = consumer.begin(worker, end, now, retries.latest())
    if begins or retries.come_in(begun.in_work[-1]):
        return begun
    return replace(consumer, position=end)


def _own(queue: Queue, steps: Sequence[Step]) -> Sequence[Step]:
    """Leave out commits that only remove rows of a free-standing queue, and count changes of the schema that are events.

    A commit that removes rows and adds others, as INSERT OVERWRITE does, is counted: the added rows are events.
    """
    if queue.free_standing:
        return [replace(step, events=0) if queue.id in step.applications or step.operation in _REMOVE else step for step in steps]
    if queue.statement.schema_changes:
        return [replace(step, events=step.events + 1) if step.schema else step for step in steps]
    return steps


def together(of_queue: Limits, said: Limits) -> Limits:
    """Return the limits of the next batch: what a statement says goes before what the queue says."""
    return replace(of_queue, **{each.name: value for each in fields(said) if (value := getattr(said, each.name)) is not None})
