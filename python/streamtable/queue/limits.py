"""The end of a batch. A commit is never divided between two batches, and no process has to run to see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from streamtable.language.queue.ast import Limits
from streamtable.subscribing.inputs import Step

__all__ = ["MOST_HELD", "bearable", "cut", "held"]

MOST_HELD = 100_000
"""So many events does the driver hold as the rows of an answer, where nobody allows more."""

_NONE = timedelta()


def cut(position: int, steps: Iterable[Step], limits: Limits, now: datetime) -> tuple[int, bool]:
    """Return the end of the next batch from `position`, and whether the batch may begin.

    A full batch does not wait for its minimum (`min_count`, `min_interval`). Commits without events are passed over: then the
    answer is a later position, and no batch begins.
    """
    end, count, first = position, 0, None
    for step in steps:
        if limits.min_lag is not None and now - step.at < limits.min_lag:
            break
        if first is not None and step.events and _full(limits, count + step.events, step.at - first):
            return end, True
        if first is None and step.events:
            first = step.at
        count += step.events
        end = step.time
    if first is None:
        return end, False
    if count < (limits.min_count or 0) or now - first < (limits.min_interval or _NONE):
        return position, False
    return end, True


def held(limits: Limits) -> Limits:
    """Return the limits of a batch whose events the driver is to hold."""
    return limits if limits.max_count else replace(limits, max_count=max(MOST_HELD, limits.min_count or 0))


def bearable(limits: Limits) -> int:
    """Return how many events the answer of a batch with these limits may have.

    The log counts an updated row once, which is two events where the queue has no key. Events that come again are not counted.
    """
    return max(MOST_HELD, 3 * (limits.max_count or 0))


def _full(limits: Limits, count: int, interval: timedelta) -> bool:
    return (limits.max_count is not None and count > limits.max_count) or (
        limits.max_interval is not None and interval > limits.max_interval
    )
