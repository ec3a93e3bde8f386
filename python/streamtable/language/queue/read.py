"""Trees of change queues to statements; what CREATE QUEUE ... ON says of its events, said as a subscription."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from lark import Token, v_args
from lark.tree import Meta
from sqlglot import exp

from streamtable.language.names import Name, Query
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
    Reader,
    RegisterConsumer,
    ReplayDeadLetters,
    RetryEvents,
    ShowConsumers,
    ShowDeadLetters,
    ShowQueues,
    UnregisterConsumer,
)
from streamtable.language.replication.read import Pairs, ReplicationRules
from streamtable.language.stream_table.ast import AcceptDefinition
from streamtable.language.subscribe.ast import Debezium, Modifier, Subscribe, Upsert
from streamtable.language.subscribe.read import SubscribeRules
from streamtable.language.transformer import MOST_DIGITS, Clause, Rules
from streamtable.sql import builder

__all__ = ["QUEUES", "QueueRules"]

QUEUES: Mapping[str, Callable[..., Any]] = {
    "events": Columns,
    "finish_batch": lambda number, reader: FinishBatch(reader, None if number is None else int(number)),
    "give_up": GiveUpEvents,
    "of_schedulers": OfSchedulers,
    "purge_queue": PurgeQueue,
    "reader": lambda queue, consumer, worker: Reader(queue, str(consumer), None if worker is None else str(worker)),
    "register": lambda consumer, queue, at: RegisterConsumer(str(consumer), queue, at),
    "replay": lambda queue, consumer, where: ReplayDeadLetters(queue, str(consumer), where),
    "show_consumers": ShowConsumers,
    "show_dead": lambda queue, consumer: ShowDeadLetters(queue, str(consumer)),
    "show_queues": ShowQueues,
    "unregister": lambda consumer, queue: UnregisterConsumer(str(consumer), queue),
}
"""Rules whose statement has the rule's children as its fields."""

_COUNTS = ("max_count", "min_count")
_LIMITS = (*_COUNTS, "max_interval", "min_interval", "min_lag")
_LONGEST_DAYS = 365


class Captured(NamedTuple):
    """What CREATE QUEUE says of its events."""

    events: Subscribe | Columns
    keys_only: bool = False
    schema_changes: bool = False


@v_args(meta=True, inline=True)
class QueueRules(SubscribeRules, ReplicationRules):
    """The rules of the statements on change queues."""

    force = Rules.flag

    def create_queue(
        self, at: Meta, if_not_exists: Meta | None, name: Name, captured: Captured | Columns, limits: Pairs | None
    ) -> CreateQueue:
        events = Captured(captured) if isinstance(captured, Columns) else captured
        given = Limits(**self._limits(limits or (), _LIMITS))
        return CreateQueue(name, *events, limits=given, if_not_exists=if_not_exists is not None)

    def captured(
        self,
        at: Meta,
        relation: Name | Query,
        modifier: Clause | None,
        keys_only: Clause | None,
        schema_changes: Clause | None,
    ) -> Captured:
        envelope: Modifier | None = modifier.value if modifier else None
        if keys_only and envelope is None:
            raise self._keyless(keys_only)
        return Captured(Subscribe(relation, envelope), keys_only is not None, schema_changes is not None)

    def capture(self, at: Meta, table: Name, *clauses: Clause) -> Captured:
        given = self._given(clauses)
        said = {field: clause.value for field, clause in given.items()}
        key, envelope = said.get("key", ()), Debezium if "old_row" in said else Upsert
        if not key and "keys_only" in said:
            raise self._keyless(given["keys_only"])
        if not key and "old_row" in said:
            message = "OLD ROW needs a KEY that tells which new row it belongs to"
            raise self._invalid(given["old_row"].at, message, "write KEY (...); without one, old rows are events with the diff -1")
        relation: Name | Query = table
        if said.keys() & {"ignored", "when", "columns"}:
            relation = Query(_projected(table, said.get("ignored", ()), said.get("columns"), said.get("when")))
        subscribe = Subscribe(relation, envelope(key) if key else None)
        return Captured(subscribe, "keys_only" in said, "schema_changes" in said)

    def _keyless(self, clause: Clause) -> Exception:
        message = "KEYS ONLY needs a key: without one, it cannot be told which rows were updated or deleted"
        return self._invalid(clause.at, message, "write KEY (...), or FOR SUBSCRIBE ... ENVELOPE UPSERT (KEY (...))")

    def capture_key(self, at: Meta, *columns: Token) -> Clause:
        return Clause("KEY", "key", self._columns(columns), at)

    def ignore(self, at: Meta, *columns: Token) -> Clause:
        return Clause("IGNORE", "ignored", self._columns(columns), at)

    def when(self, at: Meta, condition: str) -> Clause:
        return Clause("WHEN", "when", condition, at)

    def old_row(self, at: Meta) -> Clause:
        return Clause("OLD ROW", "old_row", True, at)

    def columns(self, at: Meta, expressions: str) -> Clause:
        return Clause("COLUMNS", "columns", expressions, at)

    def keys_only(self, at: Meta) -> Clause:
        return Clause("KEYS ONLY", "keys_only", True, at)

    def schema_changes(self, at: Meta) -> Clause:
        return Clause("SCHEMA CHANGES", "schema_changes", True, at)

    def alter_queue(self, at: Meta, name: Name, options: Pairs | AcceptDefinition) -> AlterQueue:
        if isinstance(options, AcceptDefinition):
            return AlterQueue(name, accept=True)
        self._options(options, _LIMITS)
        without = tuple(str(key) for key, value in options if value.casefold() == "none")
        given = tuple((key, value) for key, value in options if key not in without)
        return AlterQueue(name, Limits(**self._limits(given, _LIMITS)), without)

    def drop_queue(self, at: Meta, if_exists: Meta | None, name: Name, force: Meta | None) -> DropQueue:
        return DropQueue(name, if_exists is not None, force is not None)

    def next_batch(self, at: Meta, reader: Reader, options: Pairs | None) -> NextBatch:
        given = self._limits(options or (), (*_LIMITS, "take_over_after"))
        return NextBatch(reader, take_over_after=given.pop("take_over_after", None), limits=Limits(**given))

    def retry(self, at: Meta, reader: Reader, where: str | None, after: str | None) -> RetryEvents:
        return RetryEvents(reader, where, timedelta() if after is None else self._duration(at, after))

    def _limits(self, pairs: Pairs, known: tuple[str, ...]) -> dict[str, Any]:
        self._options(pairs, known)
        return {str(key): self._whole(key, value) if key in _COUNTS else self._duration(key, value) for key, value in pairs}

    def _whole(self, key: Token, value: str) -> int:
        if not value.isdecimal() or len(value) > MOST_DIGITS or int(value) == 0:
            raise self._invalid(key, f"{key} cannot be {value!r}", "write how many events: 1 or more")
        return int(value)

    def _duration(self, at: Meta | Token, value: str) -> timedelta:
        return timedelta(milliseconds=self._milliseconds(at, value, "duration", _LONGEST_DAYS))


def _projected(table: Name, ignored: Iterable[str], columns: str | None, when: str | None) -> str:
    """Say as a query what is captured: a change of ignored columns alone changes none of its rows."""
    items: list[exp.Expr] = [builder.everything_but(ignored), *([builder.verbatim(columns)] if columns else [])]
    query = builder.select(items, exp.to_table(builder.qualified(table.parts), dialect="spark"))
    # Of `t WHERE (x)` Spark takes WHERE for another name of t, and x for one of its column.
    return builder.text(query.where(exp.Paren(this=exp.Paren(this=builder.verbatim(when)))) if when else query)
