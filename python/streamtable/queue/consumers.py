"""Consumers and their moves. A consumer has a position and open batches, one per worker. A batch stays the same until it is
finished.

A consumer is a property of a Delta table of its own, in the hidden folder of the queue, where nobody else writes. A move is one
commit without a Spark job. Consumers do not conflict; if two workers of one consumer move at once, one of them begins again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from pyspark.sql import SparkSession
from tenacity import stop_after_delay, wait_random_exponential

from streamtable.catalog import objects
from streamtable.catalog.paths import HIDDEN
from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.commit import Metadata, Transaction, again_after_conflicts, commit
from streamtable.delta.ddl import FEW_CHECKPOINTS
from streamtable.delta.folders import children
from streamtable.delta.tables import Version, state, versions
from streamtable.errors import ConsumerNotFound, near_names
from streamtable.queue.definition import Queue

__all__ = ["Batch", "Consumer", "load", "move", "of", "patiently", "there"]

_TIME = 126
"""The bits of a time: it has 38 digits at most."""

_PROPERTY = "streamtable.consumer"
_PROPERTIES = {
    **FEW_CHECKPOINTS,
    "delta.logRetentionDuration": "interval 1 day",  # only the latest state counts
    "delta.deletedFileRetentionDuration": "interval 1 day",
}
_PATIENCE = 300  # seconds: as long as others go on there is no reason to fail


@dataclass(frozen=True)
class Batch:
    """The events after `start` and up to `end`, and the retries that were recorded and due when the batch began, at `begun_at`.

    `retries_at` is the version of the table of retries at that moment. The retries of the batch before it, up to `retried_after`
    and `retries_after`, are left out. Batches of earlier releases have the version 0 and go by time alone.

    `number` counts the consumer's batches from 1. Batches that are open at once have different lanes, so the numbers in each lane
    only grow, in whatever order workers finish. `taken_at` is the time at which its worker got it.
    """

    number: int
    lane: int
    worker: str | None
    start: int
    end: int
    retried_after: datetime
    begun_at: datetime
    taken_at: datetime
    retries_after: int = 0
    retries_at: int = 0


@dataclass(frozen=True)
class Consumer:
    """A reader of a queue. All events up to `position` are finished or in open `batches`, the latest of which began at `begun_at`.

    The table of retries with the id `retries_table` was at version `retries_at` then, by the commit `retries_commit`: what an older
    copy of it lacks is lost. The position belongs to the history of the `tables` with these ids, and
    `commits` tell its commits from others of their numbers. Consumers of earlier releases have none.
    """

    name: str
    position: int
    batches: int
    registered_at: datetime
    seen_at: datetime
    begun_at: datetime
    in_work: tuple[Batch, ...] = ()
    retries_at: int = 0
    tables: tuple[str, ...] = ()
    commits: tuple[str | None, ...] = ()
    retries_table: str | None = None
    retries_commit: str | None = None

    @property
    def finished(self) -> int:
        """Return the position up to which all events are finished."""
        return min((each.start for each in self.in_work), default=self.position)

    def application(self, queue: Queue) -> str:
        """Name this registration in the commits of its consumer. A new registration counts its batches from 1 again."""
        return f"streamtable.queue.{queue.id}.{self.name}.{self.registered_at.timestamp():.6f}"

    def batch_of(self, worker: str | None) -> Batch | None:
        """Return the open batch of a worker."""
        return next((each for each in self.in_work if each.worker == worker), None)

    def begin(self, worker: str | None, end: int, at: datetime, retries: Version | None = None) -> Consumer:
        """Give a worker the events up to `end`, and the due retries of that version of their table, if there is one."""
        taken = {each.lane for each in self.in_work}
        lane = next(n for n in range(len(taken) + 1) if n not in taken)
        seen = self
        if retries is not None and retries.number >= self.retries_at:
            seen = replace(self, retries_at=retries.number, retries_table=retries.table_id, retries_commit=retries.commit)
        batch = Batch(self.batches + 1, lane, worker, self.position, end, self.begun_at, at, at, self.retries_at, seen.retries_at)
        return replace(seen, position=end, batches=batch.number, begun_at=at, seen_at=at, in_work=(*self.in_work, batch))

    def take_over(self, worker: str | None, before: datetime, at: datetime) -> Consumer:
        """Give a worker the open batch that another worker has had longest, if it got the batch before a moment."""
        stale = [each for each in self.in_work if each.taken_at < before]
        if not stale:
            return self
        first = min(stale, key=lambda batch: batch.taken_at)
        taken = replace(first, worker=worker, taken_at=at)
        return replace(self, in_work=tuple(taken if each is first else each for each in self.in_work), seen_at=at)

    def finish(self, worker: str | None, number: int | None, at: datetime) -> Consumer:
        """Finish a worker's batch, with the given `number` if any. Without such a batch, return the same consumer."""
        batch = self.batch_of(worker)
        if batch is None or number not in (None, batch.number):
            return self
        return replace(self, in_work=tuple(each for each in self.in_work if each is not batch), seen_at=at)


Change = Callable[[Consumer | None], Consumer | None]


def of(spark: SparkSession, queue: Queue) -> list[Consumer]:
    """Return the current consumers of a queue, by name."""
    found = (_read(spark, path)[1] for path in children(spark, _folder(queue)))
    return sorted((each for each in found if each is not None), key=lambda consumer: consumer.name)


def load(spark: SparkSession, queue: Queue, name: str) -> Consumer:
    """Return the consumer of a name. Raises ConsumerNotFound, with near names."""
    return there(spark, queue, name, _read(spark, _path(queue, name))[1])


def there(spark: SparkSession, queue: Queue, name: str, found: Consumer | None) -> Consumer:
    """Return the consumer found under a name. Raises ConsumerNotFound, with near names, if there is none."""
    if found is not None:
        return found
    near = near_names(name, [each.name for each in of(spark, queue)])
    raise ConsumerNotFound(f"{queue} has no consumer {name}.{near}", hint=f"REGISTER CONSUMER {name} ON {queue}")


patiently = again_after_conflicts(stop_after_delay(_PATIENCE), wait_random_exponential(0.1, 5)).wraps
"""Decorates what begins again when another commit came first."""


@patiently
def move(spark: SparkSession, queue: Queue, name: str, change: Change) -> tuple[Consumer | None, Consumer | None]:
    """Replace a consumer by the result of `change`, unless both are the same. The second of two changes sees the first one's
    result.

    Returns the consumer before and after; None for a missing one.
    """
    path = _path(queue, name)
    version, before = _read(spark, path)
    after = change(before)
    if after != before:
        first = version < 0
        kept = None if after is None else json.dumps(asdict(after), default=datetime.isoformat)
        commit(
            spark,
            path,
            version,
            Transaction(queue.id, version + 1),
            metadata=Metadata(
                schema_json=objects.COLUMNS.json() if first else None,
                properties={_PROPERTY: kept} | (_PROPERTIES if first else {}),
            ),
        )
    return before, after


def _folder(queue: Queue) -> str:
    return f"{queue.path}{HIDDEN}/consumers"


def _path(queue: Queue, name: str) -> str:
    return f"{_folder(queue)}/{name.encode().hex()}"  # whatever a name holds, a folder can have it


def _read(spark: SparkSession, path: str) -> tuple[int, Consumer | None]:
    if versions(spark, [path])[0] is None:
        return -1, None
    found = state(spark, path)
    kept = found.properties.get(_PROPERTY)  # one that is unregistered leaves its table
    try:
        return found.version, None if kept is None else restored(Consumer, json.loads(kept), _TIME)
    except UNREADABLE:  # who may write there could as well have deleted it: it is not registered any more
        return found.version, None
