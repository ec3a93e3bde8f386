"""A queue is a Delta table. Its property defines the events; the events of a free-standing queue are the table's own rows."""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.catalog import objects
from streamtable.catalog.kinds import QUEUE, CatalogObject, statement_of, unreadable
from streamtable.errors import InvalidStatement
from streamtable.jvm.handles import namespace_of
from streamtable.language.names import UNREAD, Name, Query
from streamtable.language.queue.ast import Columns, CreateQueue
from streamtable.language.subscribe.ast import Subscribe
from streamtable.language.write import to_sql
from streamtable.query.checks import find_source
from streamtable.sessions.captured import captured_settings
from streamtable.subscribing.feed import columns_of, meaning
from streamtable.subscribing.subscription import schema_of

__all__ = ["RETRIES", "SCHEMA", "Queue", "create", "load", "queues"]

RETRIES = "retries"
"""The column after those of an event: how often the event was redelivered."""

SCHEMA = "schema"
"""The column before RETRIES in queues whose events include changes of the schema."""

_PROPERTIES = {
    "delta.enableDeletionVectors": "true",  # rows are purged by their positions
    "delta.logRetentionDuration": "interval 365 days",  # events that nobody has finished are found by the log
    "delta.deletedFileRetentionDuration": "interval 365 days",  # and are in files that OPTIMIZE replaced
}
"""The properties of a free-standing queue's table."""


@dataclass(frozen=True)
class Queue:
    """The definition by CREATE QUEUE, with the context in which names and expressions are read. `id` marks the queue's commits."""

    stored: CatalogObject
    id: str
    statement: CreateQueue
    namespace: tuple[str, str]
    settings: Mapping[str, str]
    columns: str = UNREAD
    """The columns of the tables of a view or a query, and its texts, at CREATE QUEUE."""

    @classmethod
    def of(cls, stored: CatalogObject) -> Queue:
        """Read it from its table."""
        known = stored.content
        statement = statement_of(stored, CreateQueue)
        try:
            catalog, schema = known["namespace"]
            return cls(stored, known["id"], statement, (catalog, schema), known["settings"], known.get("columns", UNREAD))
        except (LookupError, TypeError, ValueError) as error:
            raise unreadable(stored, error) from error

    @property
    def path(self) -> str:
        """Return the path of its table."""
        return self.stored.path

    @property
    def free_standing(self) -> bool:
        """Tell whether events are inserted into the queue's own table."""
        return isinstance(self.statement.events, Columns)

    @property
    def subscribe(self) -> Subscribe:
        """Return the subscription that gives its events."""
        events = self.statement.events
        if isinstance(events, Columns):
            return Subscribe(Name(self.stored.name))
        return replace(events, relation=meaning(events.relation, self.columns))

    def __str__(self) -> str:
        return str(self.stored)


def create(spark: SparkSession, statement: CreateQueue) -> Queue:
    """Make the table of a queue. Raises the errors of its subscription or its columns, and QueueExists."""
    if statement.if_not_exists and (existing := objects.find(spark, QUEUE, statement.name)):
        return Queue.of(existing)
    name = Name(objects.free(spark, QUEUE, statement.name).name)
    events, columns, properties, read = statement.events, objects.COLUMNS, dict[str, str](), UNREAD
    if isinstance(events, Columns):
        columns, properties = _columns(events), _PROPERTIES
        names = ["timestamp", *columns.names]
    else:
        events = _canonical(spark, events)
        names = schema_of(spark, events).names
        read = columns_of(spark, events.relation, follows=statement.schema_changes)
    if statement.schema_changes:
        names = [*names, SCHEMA]
    if len({each.casefold() for each in (*names, RETRIES)}) <= len(names):
        hint = "give the column another name: COLUMNS, or a query with AS, can"
        message = f"the events of a queue have each name once, {RETRIES} among them: {', '.join(names)}"
        raise InvalidStatement(message, hint=hint)
    content = {
        "id": uuid.uuid4().hex,
        "sql": to_sql(replace(statement, name=name, events=events, if_not_exists=False)),
        "namespace": namespace_of(spark),
        "settings": captured_settings(spark),
        "columns": read,
    }
    return Queue.of(objects.create(spark, QUEUE, name, content, columns, properties))


def load(spark: SparkSession, name: Name) -> Queue:
    """Return the queue of a name. Raises QueueNotFound, with near names."""
    return Queue.of(objects.load(spark, QUEUE, name))


def queues(spark: SparkSession, namespace: Sequence[str] | None = None, besides: Container[Sequence[str]] = ()) -> Iterator[Queue]:
    """Yield the queues of a namespace, or of all; `besides` are full names that are not looked at."""
    return objects.every_as(spark, QUEUE, Queue.of, namespace, besides)


def _columns(columns: Columns) -> StructType:
    try:
        found = StructType.fromDDL(columns.text)
    except ParseException as error:
        hint = "write them as in CREATE TABLE: name type, ..."
        raise InvalidStatement(f"Spark rejects the columns: {error}", hint=hint) from error
    assert isinstance(found, StructType), "a list of columns"
    return found


def _canonical(spark: SparkSession, subscribe: Subscribe) -> Subscribe:
    """Name the relation in full: the queue is read from other sessions."""
    if isinstance(subscribe.relation, Query):
        return subscribe
    located = find_source(spark, subscribe.relation)
    return replace(subscribe, relation=Name(located.name)) if located.kind in ("delta", "view") else subscribe
