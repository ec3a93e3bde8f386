"""Change queues as data: what was asked for, with nothing looked up yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from streamtable.sql.statements import Name
from streamtable.sql.subscribe import Subscribe


@dataclass(frozen=True)
class CreateQueue:
    """CREATE QUEUE: its events are the rows of a subscription."""

    name: Name
    subscribe: Subscribe
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropQueue:
    """DROP QUEUE; `force` drops one that still has consumers."""

    name: Name
    if_exists: bool = False
    force: bool = False


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
class NextBatch:
    """NEXT BATCH: the same one until it is finished."""

    queue: Name
    consumer: str


@dataclass(frozen=True)
class FinishBatch:
    """FINISH BATCH."""

    queue: Name
    consumer: str


QueueStatement: TypeAlias = (
    CreateQueue | DropQueue | RegisterConsumer | UnregisterConsumer | ShowQueues | ShowConsumers | NextBatch | FinishBatch
)
