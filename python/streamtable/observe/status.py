"""One status: the states of stream tables, queues and replication, and their dependencies, as values.

`look` (observe/look.py) makes a status; everything else here is derived from it. Pages that show a status compute nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

import networkx as nx

from streamtable.catalog.definition import SUSPENDED, Failure
from streamtable.delta.tables import Size
from streamtable.observe.alerts import Alert
from streamtable.observe.freshness import Freshness
from streamtable.observe.health import Health
from streamtable.queue.consumers import Consumer
from streamtable.refresh.choose import Action
from streamtable.refresh.cost import Ran
from streamtable.refresh.history import Line

__all__ = [
    "Column",
    "Expected",
    "Kind",
    "PublicationStatus",
    "QueueStatus",
    "Standing",
    "Status",
    "SubscriptionStatus",
    "TableStatus",
    "graph_of",
    "key_of",
]

_CONDITION = re.compile(r"\[(\w+)\] ")
FAILED = (Action.FAILED, Action.SKIPPED)
WHOLE = (Action.FULL, Action.REINITIALIZE)


class Standing(str, Enum):
    """The state of a stream table in one word: the worst that is true."""

    FRESH = "fresh"
    STALE = "stale"
    FAILING = "failing"
    SUSPENDED = "suspended"


class Kind(str, Enum):
    """The kind of a node in the graph; people see the value."""

    SOURCE = "table"
    STREAM_TABLE = "stream table"
    QUEUE = "queue"
    CONSUMER = "consumer"
    PUBLICATION = "publication"
    SUBSCRIPTION = "subscription"


@dataclass(frozen=True)
class Column:
    """One column of a stream table."""

    name: str
    type: str
    comment: str | None


@dataclass(frozen=True)
class Expected:
    """One expectation, and how many rows pass and fail as of the last refresh; None before the first."""

    name: str
    condition: str
    violation: str
    passed: int | None
    failed: int | None


@dataclass(frozen=True)
class TableStatus:
    """One stream table. `history` has the latest line first; `sources` are the states of its sources."""

    name: tuple[str, ...]
    path: str
    table_id: str
    version: int
    status: str
    mode: str
    schedule: str
    statement: str
    comment: str | None
    columns: tuple[Column, ...]
    size: Size | None
    fresh: Freshness
    error: Failure | None
    history: tuple[Line, ...]
    sources: tuple[Health, ...]
    runs: tuple[Ran, ...] = ()
    """The costs of the last refreshes of its present plan, of both kinds if there were both."""
    action: str | None = None
    """What the refresh did that the contents are from."""
    stood_at: datetime | None = None
    """When the sources were at the versions of the contents; the history may not reach back so far."""
    resumed: int = -1
    """The version of the last RESUME, which forgives the failures before it."""
    failures: int = 0
    """Failures in a row."""
    expectations: tuple[Expected, ...] = ()

    @property
    def last_attempt(self) -> Line | None:
        """Return the last attempt to refresh. A skipped refresh is not an attempt."""
        return next((line for line in self.history if line.record.action is not Action.SKIPPED), None)

    @property
    def last_success(self) -> Line | None:
        return next((line for line in self.history if line.record.action not in FAILED), None)

    @property
    def succeeded_at(self) -> datetime | None:
        """Return when a refresh last succeeded; one that found nothing to do left no line."""
        return self.last_success.at if self.last_success else self.stood_at

    @property
    def attempted_at(self) -> datetime | None:
        return self.last_attempt.at if self.last_attempt else self.stood_at

    @property
    def last_action(self) -> str | None:
        """Return what the last attempt came to: FAILED at once, not only when the table is suspended."""
        return Action.FAILED.value if self.trouble else self.action

    @property
    def reason(self) -> str | None:
        """Return why the last successful refresh did what it did."""
        return self.last_success.record.reason if self.last_success else None

    @property
    def last_whole(self) -> Line | None:
        """Return the last refresh that computed everything."""
        return next((line for line in self.history if line.record.action in WHOLE), None)

    def run(self, differential: bool) -> Ran | None:
        """Return the cost of the last refresh of a kind."""
        return next((each for each in reversed(self.runs) if each.differential is differential), None)

    @property
    def trouble(self) -> str | None:
        """Return the error of the last attempt, or the one that suspended the table, in words."""
        if self.error:
            return self.error.message
        last = self.last_attempt
        failed = last is not None and last.record.action is Action.FAILED and last.version > self.resumed
        return last.record.reason if last and failed else None

    @property
    def condition(self) -> str | None:
        """Return the class of that error for programs."""
        if self.error:
            return self.error.condition
        found = _CONDITION.match(self.trouble or "")
        return found[1] if found else None

    @property
    def next_due(self) -> datetime | None:
        """Return the deadline of its next refresh; None while it is suspended or MANUAL."""
        return None if self.status == SUSPENDED else self.fresh.deadline

    @property
    def waits(self) -> bool:
        """Tell whether its contents differ from the query now, with or without a schedule."""
        return self.fresh.data_timestamp is None or self.fresh.data_timestamp < self.fresh.now

    @property
    def standing(self) -> Standing:
        """Return the worst state that is true. A table without a schedule is stale as soon as its sources have moved."""
        if self.status == SUSPENDED:
            return Standing.SUSPENDED
        if self.trouble:
            return Standing.FAILING
        stale = self.waits if self.fresh.stale is None else self.fresh.stale
        return Standing.STALE if stale else Standing.FRESH


@dataclass(frozen=True)
class QueueStatus:
    """One queue: the tables whose changes are its events (full names), and the states of its consumers for each table."""

    name: tuple[str, ...]
    statement: str
    inputs: tuple[str, ...]
    consumers: tuple[Consumer, ...]
    health: tuple[Health, ...]

    def health_of(self, consumer: Consumer) -> tuple[Health, ...]:
        """Return the state of one consumer."""
        return tuple(each for each in self.health if each.name == f"{'.'.join(self.name)}: {consumer.name}")


@dataclass(frozen=True)
class PublicationStatus:
    """One publication, and the full names of the tables that it sends now."""

    name: tuple[str, ...]
    statement: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class SubscriptionStatus:
    """One subscription. `publications` are full names if they are in this catalog; `rows` are the states of its tables."""

    name: tuple[str, ...]
    connection: str
    enabled: bool
    publications: tuple[str, ...]
    rows: tuple[SubscribedRow, ...]


@dataclass(frozen=True)
class SubscribedRow:
    """One table of a subscription: the subscriber's full name, and how far it is applied."""

    table: str
    state: str
    position: int | None
    error: str | None
    changes: int


@dataclass(frozen=True)
class Status:
    """All objects at one moment. `settings` are key, value and meaning."""

    at: datetime
    tables: tuple[TableStatus, ...] = ()
    queues: tuple[QueueStatus, ...] = ()
    publications: tuple[PublicationStatus, ...] = ()
    subscriptions: tuple[SubscriptionStatus, ...] = ()
    slots: tuple[Health, ...] = ()
    alerts: tuple[Alert, ...] = ()
    settings: tuple[tuple[str, str, str], ...] = ()
    suspended_since: datetime | None = None
    """Since when ALTER SCHEDULER SUSPEND holds the schedulers of the catalog."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Why nobody can read a stream table, by its full name; `tables` has the others."""

    def table(self, name: str) -> TableStatus | None:
        """Return the stream table of a full name, as rows show it."""
        return next((each for each in self.tables if ".".join(each.name) == name), None)


def key_of(kind: Kind, name: str) -> str:
    """Return the node of an object in the graph. A table is one node, as a stream table, a source or a subscriber's table."""
    return f"table {name}" if kind in (Kind.SOURCE, Kind.STREAM_TABLE) else f"{kind.value} {name}"


def graph_of(status: Status) -> nx.DiGraph[str]:
    """Return the graph of dependencies: nodes with `kind` and `name`, an edge from each source to its reader."""
    graph: nx.DiGraph[str] = nx.DiGraph()

    def node(kind: Kind, name: str) -> str:
        key = key_of(kind, name)
        if key not in graph:
            graph.add_node(key, kind=kind, name=name)
        return key

    for name in (*(".".join(table.name) for table in status.tables), *status.unreadable):
        node(Kind.STREAM_TABLE, name)
    for kind, name, reads in _readers(status):
        reader = node(kind, name)
        graph.add_edges_from((node(of, each), reader) for of, each in reads)
    return graph


def _readers(status: Status) -> Iterator[tuple[Kind, str, list[tuple[Kind, str]]]]:
    """Yield each object that reads others, its name, and its sources."""
    for table in status.tables:
        yield Kind.STREAM_TABLE, ".".join(table.name), [(Kind.SOURCE, each.source) for each in table.sources]
    for queue in status.queues:
        name = ".".join(queue.name)
        yield Kind.QUEUE, name, [(Kind.SOURCE, each) for each in queue.inputs]
        for consumer in queue.consumers:
            yield Kind.CONSUMER, f"{name}: {consumer.name}", [(Kind.QUEUE, name)]
    for publication in status.publications:
        yield Kind.PUBLICATION, ".".join(publication.name), [(Kind.SOURCE, each) for each in publication.tables]
    for subscription in status.subscriptions:
        name = ".".join(subscription.name)
        yield Kind.SUBSCRIPTION, name, [(Kind.PUBLICATION, each) for each in subscription.publications]
        for row in subscription.rows:
            yield Kind.SOURCE, row.table, [(Kind.SUBSCRIPTION, name)]
