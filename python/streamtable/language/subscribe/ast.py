"""SUBSCRIBE and its cursors as data: what was asked for, with nothing looked up yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from streamtable.language.names import Name, Query


@dataclass(frozen=True)
class Upsert:
    """ENVELOPE UPSERT: one row per key and time, with the values that it has from then on."""

    key: tuple[str, ...]


@dataclass(frozen=True)
class Debezium:
    """ENVELOPE DEBEZIUM: one row per key and time, with the values before and after."""

    key: tuple[str, ...]


@dataclass(frozen=True)
class OrderItem:
    """A column by its name, or by its place in the result from the column `diff` (1) on; NULLs as in Spark's ORDER BY if None."""

    column: str | int
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True)
class WithinTimestamp:
    """WITHIN TIMESTAMP ORDER BY."""

    order: tuple[OrderItem, ...]


Modifier: TypeAlias = Upsert | Debezium | WithinTimestamp


@dataclass(frozen=True)
class Subscribe:
    """SUBSCRIBE to a table or view, or to a query; the bounds are logical times, `up_to` is exclusive."""

    relation: Name | Query
    modifier: Modifier | None = None
    progress: bool = False
    snapshot: bool = True
    as_of: int | None = None
    at_least: bool = False
    up_to: int | None = None


@dataclass(frozen=True)
class CopyToStdout:
    """COPY (SUBSCRIBE ...) TO STDOUT: each row as a line of text."""

    subscribe: Subscribe


@dataclass(frozen=True)
class DeclareCursor:
    """DECLARE ... CURSOR FOR SUBSCRIBE."""

    cursor: str
    subscribe: Subscribe


@dataclass(frozen=True)
class Fetch:
    """FETCH: at most `count` rows, all that are there if None; without a time-out it waits for the first."""

    cursor: str
    count: int | None = 1
    timeout_ms: int | None = None


@dataclass(frozen=True)
class CloseCursor:
    """CLOSE."""

    cursor: str


SubscribeStatement: TypeAlias = Subscribe | CopyToStdout | DeclareCursor | Fetch | CloseCursor
