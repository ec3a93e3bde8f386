"""Change queues as data: what was asked for, with nothing looked up yet."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from streamtable.language.names import Name
from streamtable.language.subscribe.ast import Subscribe


@dataclass(frozen=True)
class Columns:
    """The columns of a free-standing queue, as CREATE TABLE lists them."""

    text: str


@dataclass(frozen=True)
class OfSchedulers(Columns):
    """FOR EVENTS: a free-standing queue in which schedulers tell what refreshes did, and alerts."""

    text: str = (
        "event STRING, name STRING, action STRING, reason STRING, version BIGINT, at TIMESTAMP, rows_inserted BIGINT, "
        "rows_deleted BIGINT, duration_ms BIGINT, request STRING"
    )


@dataclass(frozen=True)
class Limits:
    """What is in a batch: where it stops, and what has to be there before it is begun.

    `max_count` and `min_count` are events, the intervals lie between its first commit and its last, or now. `min_lag` is the age
    of its last commit.
    """

    max_count: int | None = None
    max_interval: timedelta | None = None
    min_count: int | None = None
    min_interval: timedelta | None = None
    min_lag: timedelta | None = None


@dataclass(frozen=True)
class CreateQueue:
    """CREATE QUEUE: its events are the rows of a subscription, or what is inserted.

    With `keys_only` there is one per key and batch; with `schema_changes` those of the captured tables are events in their place.
    """

    name: Name
    events: Subscribe | Columns
    keys_only: bool = False
    schema_changes: bool = False
    limits: Limits = Limits()
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterQueue:
    """ALTER QUEUE: these limits replace those of the queue, those of the names in `without` go; or its definition is accepted."""

    name: Name
    limits: Limits = Limits()
    without: tuple[str, ...] = ()
    accept: bool = False


@dataclass(frozen=True)
class DropQueue:
    """DROP QUEUE; `force` drops one that still has consumers."""

    name: Name
    if_exists: bool = False
    force: bool = False


@dataclass(frozen=True)
class PurgeQueue:
    """PURGE QUEUE: delete the events of a free-standing queue that all consumers have finished."""

    name: Name


@dataclass(frozen=True)
class RegisterConsumer:
    """REGISTER CONSUMER: it gets what comes after `at`, or after now."""

    consumer: str
    queue: Name
    at: int | None = None


@dataclass(frozen=True)
class UnregisterConsumer:
    """UNREGISTER CONSUMER."""

    consumer: str
    queue: Name


@dataclass(frozen=True)
class ShowQueues:
    """SHOW QUEUES of a namespace, the current one if None."""

    namespace: Name | None = None


@dataclass(frozen=True)
class ShowConsumers:
    """SHOW CONSUMERS."""

    queue: Name


@dataclass(frozen=True)
class Reader:
    """Who reads a queue: a consumer, or one of the workers that share its position."""

    queue: Name
    consumer: str
    worker: str | None = None


@dataclass(frozen=True)
class NextBatch:
    """NEXT BATCH: the same one until it is finished; after a time-out that of another worker."""

    reader: Reader
    limits: Limits = Limits()
    take_over_after: timedelta | None = None


@dataclass(frozen=True)
class FinishBatch:
    """FINISH BATCH, whichever is in work or, with a `number`, that one alone."""

    reader: Reader
    number: int | None = None


@dataclass(frozen=True)
class RetryEvents:
    """RETRY EVENTS: those of the batch in work that fit `where` come again `after` a while."""

    reader: Reader
    where: str | None = None
    after: timedelta = timedelta()


@dataclass(frozen=True)
class GiveUpEvents:
    """GIVE UP EVENTS: those of the batch in work that fit `where` become dead letters."""

    reader: Reader
    where: str | None = None


@dataclass(frozen=True)
class ShowDeadLetters:
    """SHOW DEAD LETTERS."""

    queue: Name
    consumer: str


@dataclass(frozen=True)
class ReplayDeadLetters:
    """REPLAY DEAD LETTERS: those that fit `where` come again in the next batch."""

    queue: Name
    consumer: str
    where: str | None = None


QueueStatement: TypeAlias = (
    CreateQueue
    | AlterQueue
    | DropQueue
    | PurgeQueue
    | RegisterConsumer
    | UnregisterConsumer
    | ShowQueues
    | ShowConsumers
    | NextBatch
    | FinishBatch
    | RetryEvents
    | GiveUpEvents
    | ShowDeadLetters
    | ReplayDeadLetters
)
