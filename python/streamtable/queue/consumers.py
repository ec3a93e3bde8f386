"""Consumers and what moves them. Each has a position and batches in work, one per worker, which stay the same until finished.

They are kept as a property of a Delta table in the hidden folder of the queue's own, where nobody else writes: a move is one
commit without a Spark job, and of two who move at once one begins again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timezone
from threading import RLock
from typing import Any

from pyspark.sql import SparkSession
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random_exponential

from streamtable.catalog import objects
from streamtable.delta.commit import commit
from streamtable.delta.tables import state, versions
from streamtable.errors import ConcurrentRefresh, ConsumerNotFound, near_names
from streamtable.queue.definition import Queue

__all__ = ["Batch", "Consumer", "move", "named", "now", "of"]

_PROPERTY = "streamtable.consumers"
_PROPERTIES = {
    "delta.checkpointInterval": "100",
    "delta.logRetentionDuration": "interval 1 day",  # only the latest state counts
    "delta.deletedFileRetentionDuration": "interval 1 day",
}
_PATIENCE = 300  # seconds: as long as others go on there is no reason to fail

# They may be held while the JVM works: it does not call back for what is done here.
_moving: defaultdict[str, RLock] = defaultdict(RLock)
"""By path: threads of one process wait for each other, instead of trying in vain."""

Consumers = Sequence["Consumer"]


@dataclass(frozen=True)
class Batch:
    """The events after `start` and up to `end`, and the retries due after `retried_after` and until `begun_at`.

    `number` counts the consumer's batches from 1. Batches that are in work at once have different lanes, so that in each lane
    numbers only grow, whoever finishes first. `taken_at` is when its worker got it.
    """

    number: int
    lane: int
    worker: str | None
    start: int
    end: int
    retried_after: datetime
    begun_at: datetime
    taken_at: datetime


@dataclass(frozen=True)
class Consumer:
    """All up to `position` is finished or in work; `batches` were begun, the latest at `begun_at`."""

    name: str
    position: int
    batches: int
    registered_at: datetime
    seen_at: datetime
    begun_at: datetime
    in_work: tuple[Batch, ...] = ()

    @property
    def finished(self) -> int:
        """Return up to where everything is finished."""
        return min((each.start for each in self.in_work), default=self.position)

    def application(self, queue: Queue) -> str:
        """Name this registration in the commits of its consumer: one that is registered anew counts its batches from 1 again."""
        return f"streamtable.queue.{queue.id}.{self.name}.{self.registered_at.timestamp():.6f}"

    def batch_of(self, worker: str | None) -> Batch | None:
        """Return the batch that a worker has in work."""
        return next((each for each in self.in_work if each.worker == worker), None)

    def begin(self, worker: str | None, end: int, at: datetime) -> Consumer:
        """Give a worker what comes up to `end`."""
        taken = {each.lane for each in self.in_work}
        lane = next(n for n in range(len(taken) + 1) if n not in taken)
        batch = Batch(self.batches + 1, lane, worker, self.position, end, self.begun_at, at, at)
        moved = replace(self, position=end, batches=batch.number, begun_at=at, seen_at=at)
        return replace(moved, in_work=(*self.in_work, batch))

    def take_over(self, worker: str | None, before: datetime, at: datetime) -> Consumer:
        """Give a worker the batch that another one has had for longest, if it got it before a moment."""
        stale = [each for each in self.in_work if each.taken_at < before]
        if not stale:
            return self
        first = min(stale, key=lambda batch: batch.taken_at)
        taken = replace(first, worker=worker, taken_at=at)
        return replace(self, in_work=tuple(taken if each is first else each for each in self.in_work), seen_at=at)

    def finish(self, worker: str | None, number: int | None, at: datetime) -> Consumer:
        """Finish a worker's batch, that of a `number` if given; the same consumer when there is none."""
        batch = self.batch_of(worker)
        if batch is None or number not in (None, batch.number):
            return self
        return replace(self, in_work=tuple(each for each in self.in_work if each is not batch), seen_at=at)


def of(spark: SparkSession, queue: Queue) -> list[Consumer]:
    """Return the consumers of a queue as they are now, by name."""
    return _read(spark, _path(queue))[1]


def named(queue: Queue, known: Consumers, name: str) -> Consumer:
    """Return the consumer of a name. Raises ConsumerNotFound, with near names."""
    for each in known:
        if each.name == name:
            return each
    near = near_names(name, [each.name for each in known])
    raise ConsumerNotFound(f"{queue} has no consumer {name}.{near}", hint=f"REGISTER CONSUMER {name} ON {queue}")


@retry(
    retry=retry_if_exception_type(ConcurrentRefresh),
    wait=wait_random_exponential(0.1, 5),
    stop=stop_after_delay(_PATIENCE),
    reraise=True,
)
def move(spark: SparkSession, queue: Queue, change: Callable[[Consumers], Consumers]) -> None:
    """Replace the consumers by what `change` makes of them, unless that is the same; who comes second sees what the first did."""
    path = _path(queue)
    with _moving[path]:
        version, before = _read(spark, path)
        after = sorted(change(before), key=lambda consumer: consumer.name)
        if after == before:
            return
        first = version < 0
        commit(
            spark,
            path,
            read_version=version,
            application=queue.id,
            number=version + 1,
            schema_json=objects.COLUMNS.json() if first else None,
            properties={_PROPERTY: json.dumps([asdict(each) for each in after], default=datetime.isoformat)}
            | (_PROPERTIES if first else {}),
        )


def now() -> datetime:
    """Return the time of day."""
    return datetime.now(timezone.utc)


def _path(queue: Queue) -> str:
    return f"{queue.path}/_streamtable/consumers"


def _read(spark: SparkSession, path: str) -> tuple[int, list[Consumer]]:
    if versions(spark, [path])[0] is None:
        return -1, []
    found = state(spark, path)
    return found.version, [_consumer(each) for each in json.loads(found.properties[_PROPERTY])]


def _consumer(kept: dict[str, Any]) -> Consumer:
    batches = tuple(Batch(**_timed(Batch, each)) for each in kept["in_work"])
    return Consumer(**{**_timed(Consumer, kept), "in_work": batches})


def _timed(kind: type[Batch | Consumer], kept: dict[str, Any]) -> dict[str, Any]:
    times = {each.name for each in fields(kind) if each.type == "datetime"}
    return {name: datetime.fromisoformat(value) if name in times else value for name, value in kept.items()}
