"""One status that tells the truth: what stream tables, queues and replication are like, and who reads whom, as values.

Whoever shows it computes nothing: `look` (observe/look.py) makes a status, and everything else here is told from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
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

FAILED = (Action.FAILED, Action.SKIPPED)
WHOLE = (Action.FULL, Action.REINITIALIZE)


class Standing(str, Enum):
    """How a stream table fares, in one word; the worst of what is true."""

    FRESH = "fresh"
    STALE = "stale"
    FAILING = "failing"
    SUSPENDED = "suspended"


class Kind(str, Enum):
    """What stands in the graph; the value is what people see."""

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
class TableStatus:
    """One stream table. `history` has the latest line first, `sources` tell how each of them stands."""

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
    """What the last refreshes of its present plan cost; of both kinds, as soon as there were both."""

    @property
    def last_attempt(self) -> Line | None:
        """Return the last refresh that was tried; to skip one is no attempt."""
        return next((line for line in self.history if line.record.action is not Action.SKIPPED), None)

    @property
    def last_success(self) -> Line | None:
        return next((line for line in self.history if line.record.action not in FAILED), None)

    @property
    def last_whole(self) -> Line | None:
        """Return the last refresh that computed everything."""
        return next((line for line in self.history if line.record.action in WHOLE), None)

    def run(self, differential: bool) -> Ran | None:
        """Return what the last refresh of a kind cost."""
        return next((each for each in reversed(self.runs) if each.differential is differential), None)

    @property
    def trouble(self) -> str | None:
        """Return the error of the last attempt, or the one that suspended the table, in words."""
        if self.error:
            return self.error.message
        last = self.last_attempt
        return last.record.reason if last and last.record.action is Action.FAILED else None

    @property
    def next_due(self) -> datetime | None:
        """Return by when its schedule asks for a refresh: nothing asks while it is suspended, or where it is MANUAL."""
        return None if self.status == SUSPENDED else self.fresh.deadline

    @property
    def waits(self) -> bool:
        """Tell whether its contents are not the query's now, whoever asks for a refresh or not."""
        return self.fresh.data_timestamp is None or self.fresh.data_timestamp < self.fresh.now

    @property
    def standing(self) -> Standing:
        """Return the worst of what is true. What nobody refreshes by schedule is stale as soon as its sources have moved."""
        if self.status == SUSPENDED:
            return Standing.SUSPENDED
        if self.trouble:
            return Standing.FAILING
        stale = self.waits if self.fresh.stale is None else self.fresh.stale
        return Standing.STALE if stale else Standing.FRESH


@dataclass(frozen=True)
class QueueStatus:
    """One queue: whose changes are its events (full names of tables), and how its consumers stand with each of these."""

    name: tuple[str, ...]
    statement: str
    inputs: tuple[str, ...]
    consumers: tuple[Consumer, ...]
    health: tuple[Health, ...]

    def health_of(self, consumer: Consumer) -> tuple[Health, ...]:
        """Return how one consumer stands."""
        return tuple(each for each in self.health if each.name == f"{'.'.join(self.name)}: {consumer.name}")


@dataclass(frozen=True)
class PublicationStatus:
    """One publication, and the full names of what it sends now."""

    name: tuple[str, ...]
    statement: str
    tables: tuple[str, ...]


@dataclass(frozen=True)
class SubscriptionStatus:
    """One subscription. `publications` are full names where they are of this catalog; `rows` tell of its tables."""

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
    """All there was at a moment. `settings` are key, value and meaning."""

    at: datetime
    tables: tuple[TableStatus, ...] = ()
    queues: tuple[QueueStatus, ...] = ()
    publications: tuple[PublicationStatus, ...] = ()
    subscriptions: tuple[SubscriptionStatus, ...] = ()
    slots: tuple[Health, ...] = ()
    alerts: tuple[Alert, ...] = ()
    settings: tuple[tuple[str, str, str], ...] = ()

    def table(self, name: str) -> TableStatus | None:
        """Return the stream table of a full name, as rows show it."""
        return next((each for each in self.tables if ".".join(each.name) == name), None)


def key_of(kind: Kind, name: str) -> str:
    """Return the node of something in the graph. A table is one node, whether a stream table, a source or a subscriber's."""
    return f"table {name}" if kind in (Kind.SOURCE, Kind.STREAM_TABLE) else f"{kind.value} {name}"


def graph_of(status: Status) -> nx.DiGraph[str]:
    """Return who reads whom: nodes with `kind` and `name`, an edge from what is read to what reads it."""
    graph: nx.DiGraph[str] = nx.DiGraph()

    def node(kind: Kind, name: str) -> str:
        key = key_of(kind, name)
        if key not in graph:
            graph.add_node(key, kind=kind, name=name)
        return key

    for table in status.tables:
        node(Kind.STREAM_TABLE, ".".join(table.name))
    for kind, name, reads in _readers(status):
        reader = node(kind, name)
        graph.add_edges_from((node(of, each), reader) for of, each in reads)
    return graph


def _readers(status: Status) -> Iterator[tuple[Kind, str, list[tuple[Kind, str]]]]:
    """Yield each object that reads others, its name, and what it reads."""
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
