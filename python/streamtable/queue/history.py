"""The tables of a consumer's position: they must be the same tables, and keep their history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamtable.errors import HistoryLost
from streamtable.jvm.failures import missing_file
from streamtable.queue.consumers import Consumer
from streamtable.queue.definition import Queue
from streamtable.subscribing.inputs import Input, Inputs

__all__ = ["anew", "check", "explained", "recreated"]


def recreated(consumer: Consumer, inputs: Inputs, position: int) -> Input | None:
    """Return a table that was created again since a consumer came to a position, or None."""
    return inputs.recreated(consumer.tables or inputs.ids, position)  # those of a consumer of an earlier release were not kept


def check(queue: Queue, consumer: Consumer, inputs: Inputs, position: int) -> None:
    """Raise HistoryLost if the consumer's position belongs to the history of other tables."""
    if consumer.tables and len(consumer.tables) != len(inputs.opened):
        message = f"{queue} reads other tables than when {consumer.name} came to {position}, so that its position means nothing"
        raise HistoryLost(message, hint=anew(queue, consumer))
    if table := recreated(consumer, inputs, position):
        message = (
            f"{table} was dropped and created again since {consumer.name} of {queue} came to {position}: "
            "the history of the table before is lost, and the new one has its own"
        )
        raise HistoryLost(message, hint=anew(queue, consumer))
    if table := inputs.overwritten(consumer.position, consumer.commits):  # open batches may have other rows then, too
        message = (
            f"an older copy of {table} took its place since {consumer.name} of {queue} came to {consumer.position}: "
            "the history of the table before is lost, and the copy has its own"
        )
        raise HistoryLost(message, hint=anew(queue, consumer))


@contextmanager
def explained(queue: Queue, consumer: Consumer) -> Iterator[None]:
    """Raise HistoryLost, with a hint, if the log or the files that a consumer has to read are gone."""
    try:
        yield
    except Exception as error:
        lost = error.reason if isinstance(error, HistoryLost) else missing_file(error)
        if lost is None or (isinstance(error, HistoryLost) and error.hint is not None):
            raise
        message = f"{consumer.name} stayed behind on {queue} for longer than the history is kept: {lost}"
        keeps = "delta.logRetentionDuration and delta.deletedFileRetentionDuration of the table say how long that is"
        raise HistoryLost(message, hint=f"{anew(queue, consumer)}; {keeps}") from error


def anew(queue: Queue, consumer: Consumer) -> str:
    """Say how a consumer begins anew."""
    name = consumer.name
    return (
        f"UNREGISTER CONSUMER {name} ON {queue}, then REGISTER CONSUMER {name} ON {queue}, AT the time from which on it is to read"
    )
