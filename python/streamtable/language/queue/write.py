"""Change queues as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import timedelta

from streamtable.language.queue.ast import (
    AlterQueue,
    Columns,
    CreateQueue,
    DropQueue,
    FinishBatch,
    GiveUpEvents,
    Limits,
    NextBatch,
    OfSchedulers,
    PurgeQueue,
    QueueStatement,
    Reader,
    RegisterConsumer,
    ReplayDeadLetters,
    RetryEvents,
    ShowConsumers,
    ShowDeadLetters,
    ShowQueues,
    UnregisterConsumer,
)
from streamtable.language.subscribe.ast import Subscribe
from streamtable.language.subscribe.write import subscribe_sql
from streamtable.sql.literals import enclosed, listed, quote_name, words


def queue_sql(statement: QueueStatement) -> str:
    """Return the statement as text."""
    match statement:
        case CreateQueue(name, events, keys_only, schema_changes, limits, if_not_exists):
            what = _events(events)
            opening = words("CREATE QUEUE", if_not_exists and "IF NOT EXISTS", name, what)
            return words(opening, keys_only and "KEYS ONLY", schema_changes and "SCHEMA CHANGES", _with(_limits(limits)))
        case AlterQueue(name, accept=True):
            return f"ALTER QUEUE {name} ACCEPT DEFINITION"
        case AlterQueue(name, limits, without):
            return f"ALTER QUEUE {name} SET {listed([*_limits(limits), *(f'{each} = NONE' for each in without)])}"
        case DropQueue(name, if_exists, force):
            return words("DROP QUEUE", if_exists and "IF EXISTS", name, force and "FORCE")
        case PurgeQueue(name):
            return f"PURGE QUEUE {name}"
        case RegisterConsumer(consumer, queue, at):
            return words("REGISTER CONSUMER", quote_name(consumer), "ON", queue, at is not None and f"AT {at}")
        case UnregisterConsumer(consumer, queue):
            return f"UNREGISTER CONSUMER {quote_name(consumer)} ON {queue}"
        case ShowQueues(namespace):
            return words("SHOW QUEUES", namespace and "IN", namespace)
        case ShowConsumers(queue):
            return f"SHOW CONSUMERS ON {queue}"
        case NextBatch(reader, limits, take_over_after):
            take_over = [] if take_over_after is None else [f"take_over_after = {_duration(take_over_after)}"]
            return words("NEXT BATCH", _reader(reader), _with([*_limits(limits), *take_over]))
        case FinishBatch(reader, number):
            return words("FINISH BATCH", number is not None and str(number), _reader(reader))
        case RetryEvents(reader, where, after):
            return words("RETRY EVENTS", _reader(reader), _where(where), after and f"AFTER {_duration(after)}")
        case GiveUpEvents(reader, where):
            return words("GIVE UP EVENTS", _reader(reader), _where(where))
        case ShowDeadLetters(queue, consumer):
            return f"SHOW DEAD LETTERS FROM {queue} FOR {quote_name(consumer)}"
        case ReplayDeadLetters(queue, consumer, where):
            return words("REPLAY DEAD LETTERS FROM", queue, "FOR", quote_name(consumer), _where(where))


def _reader(reader: Reader) -> str:
    worker = reader.worker is not None and f"WORKER {quote_name(reader.worker)}"
    return words("FROM", reader.queue, "FOR", quote_name(reader.consumer), worker)


def _where(condition: str | None) -> str:
    return f"WHERE {enclosed(condition)}" if condition is not None else ""


def _events(events: Subscribe | Columns) -> str:
    match events:
        case OfSchedulers():
            return "FOR EVENTS"
        case Columns(text):
            return enclosed(text)
        case _:
            return f"FOR {subscribe_sql(events)}"


def _limits(limits: Limits) -> Iterator[str]:
    for field in fields(limits):
        value = getattr(limits, field.name)
        if value is not None:
            yield f"{field.name} = {_duration(value) if isinstance(value, timedelta) else value}"


def _with(options: Iterator[str] | list[str]) -> str:
    given = list(options)
    return f"WITH {listed(given)}" if given else ""


def _duration(duration: timedelta) -> str:
    return f"'{duration // timedelta(milliseconds=1)}ms'"
