"""What the log of a table tells of the batches that were appended to it.

A commit has the number of its batch under the name of the consumer and the lane, by which a batch that comes again is skipped. Its
end and its digest stand beside it. An older copy of a consumer gives numbers again, to other events: to skip those would lose them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from streamtable.errors import HistoryLost
from streamtable.queue.consumers import Batch, Consumer
from streamtable.queue.definition import Queue
from streamtable.queue.history import anew

__all__ = ["has_batch", "marks"]

_BITS = 63
"""The bits of a number in Delta's log."""

_DIGEST_BITS = 32
_NAME = re.compile(r"(\d+)(?:\.(end|high|batch))?")


@dataclass(frozen=True)
class _Lane:
    """The latest batch that was appended of a lane. `digest` and `end` are None where an earlier release appended it.

    So they are for a writer that only gives the number, whose `end` may also be that of the batch before.
    """

    lane: int
    number: int
    digest: int | None
    end: int | None


def marks(batch: Batch, application: str) -> dict[str, int]:
    """Return the numbers that stand beside that of a batch, by the names under which Delta keeps them."""
    high = batch.end >> _BITS
    low = {f"{application}.batch": _digest(batch), f"{application}.end": batch.end & ((1 << _BITS) - 1)}
    return low | ({f"{application}.high": high} if high else {})


def has_batch(
    queue: Queue, consumer: Consumer, batch: Batch, table: str, found: Mapping[str, int], latest: Callable[[], Consumer | None]
) -> bool:
    """Tell whether a table has an open batch, by the numbers in its log that begin with the consumer's name.

    `latest` reads the consumer as it is, after the table was. Raises HistoryLost for a consumer that is older than the table.
    """
    lanes = _lanes(found, f"{consumer.application(queue)}.")
    if _contradict(lanes, consumer):
        raise _older(queue, consumer, table, lanes)
    if _is_behind(consumer, lanes):  # or other workers went on since it was read
        now = latest()
        same = now is not None and now.registered_at == consumer.registered_at
        if now is not None and same and (_is_behind(now, lanes) or _contradict(lanes, now)):
            raise _older(queue, consumer, table, lanes)
    return any(
        each.number == batch.number or (each.lane == batch.lane and each.number > batch.number)  # it comes late
        for each in lanes
    )


def _contradict(lanes: Iterable[_Lane], consumer: Consumer) -> bool:
    """Tell whether a batch in a table and an open batch are none of one consumer, whenever it was read."""

    def other(lane: _Lane, batch: Batch) -> bool:
        if lane.number == batch.number:
            return lane.lane != batch.lane if lane.digest is None else lane.digest != _digest(batch)
        return lane.number < batch.number and lane.end is not None and lane.end > batch.start

    return any(other(lane, batch) for lane in lanes for batch in consumer.in_work)


def _is_behind(consumer: Consumer, lanes: Iterable[_Lane]) -> bool:
    """Tell whether a consumer as it is now does not know a batch: a lane gets its next one after the one before was finished."""
    in_work = {each.lane: each.number for each in consumer.in_work}
    return any(each.number > in_work.get(each.lane, consumer.batches) for each in lanes)


def _lanes(found: Mapping[str, int], prefix: str) -> list[_Lane]:
    known = dict[int, dict[str, int]]()
    for name, number in found.items():
        if name.startswith(prefix) and (parts := _NAME.fullmatch(name.removeprefix(prefix))):
            known.setdefault(int(parts[1]), {})[parts[2] or "number"] = number
    return [_lane(lane, told) for lane, told in known.items() if "number" in told]


def _lane(lane: int, told: Mapping[str, int]) -> _Lane:
    number, digest, end = told["number"], told.get("batch"), told.get("end")
    if digest is not None and digest >> _DIGEST_BITS != number:
        digest = None  # of the batch before: another writer appended this one
    return _Lane(lane, number, digest, None if end is None else told.get("high", 0) << _BITS | end)


def _digest(batch: Batch) -> int:
    """Return the number of a batch, and in the lower bits what tells it from another one of its number.

    Where nothing was put off, a batch is the same whenever it begins.
    """
    times = (batch.retried_after.timestamp(), batch.begun_at.timestamp())
    told = [batch.start, batch.end, *((batch.retries_after, batch.retries_at, *times) if batch.retries_at else ())]
    digest = hashlib.sha256(json.dumps(told).encode()).digest()[: _DIGEST_BITS // 8]
    return batch.number << _DIGEST_BITS | int.from_bytes(digest, "big")


def _older(queue: Queue, consumer: Consumer, table: str, lanes: list[_Lane]) -> HistoryLost:
    name, ends = consumer.name, [each.end for each in lanes if each.end is not None]
    message = (
        f"{table} has batches of {name} of {queue} that {name} does not know of: an older copy of its folder took its place, "
        "and gives their numbers to other events; nothing was appended"
    )
    has = f" ({table} has events up to {max(ends)})" if ends else ""
    return HistoryLost(message, hint=f"{anew(queue, consumer)}{has}")
