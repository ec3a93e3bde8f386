"""Statements as text, in one spelling: names in backquotes, clauses in a fixed order. `parse` reads it back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamtable.sql.literals import listed, quote_name, quote_string, words
from streamtable.sql.parse import AnyStatement
from streamtable.sql.printing_replication import replicating
from streamtable.sql.queue import (
    CreateQueue,
    DropQueue,
    FinishBatch,
    NextBatch,
    QueueStatement,
    RegisterConsumer,
    ShowConsumers,
    ShowQueues,
    UnregisterConsumer,
)
from streamtable.sql.statements import (
    Action,
    AlterStreamTable,
    ColumnSpec,
    CreateStreamTable,
    DescribeStreamTable,
    DropStreamTable,
    ExplainCreate,
    ExplainStreamTable,
    Name,
    RefreshStreamTable,
    Rename,
    Resume,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    Suspend,
    VerifyStreamTable,
)
from streamtable.sql.subscribe import (
    CloseCursor,
    CopyToStdout,
    Debezium,
    DeclareCursor,
    Fetch,
    Modifier,
    OrderItem,
    Subscribe,
    SubscribeStatement,
    Upsert,
    WithinTimestamp,
)


def to_sql(statement: AnyStatement) -> str:
    """Return the statement as text. SHOW CREATE STREAM TABLE shows this."""
    match statement:
        case CreateStreamTable():
            return "\n".join(_create(statement))
        case ExplainCreate(create):
            return f"EXPLAIN {to_sql(create)}"
        case AlterStreamTable(name, action):
            return f"ALTER STREAM TABLE {name} {_action(action)}"
        case DropStreamTable(name, if_exists, cascade):
            return words("DROP STREAM TABLE", if_exists and "IF EXISTS", name, cascade and "CASCADE")
        case RefreshStreamTable(name, full, cascade):
            return words("REFRESH STREAM TABLE", name, full and "FULL", cascade and "CASCADE")
        case ShowStreamTables(namespace, like):
            pattern = None if like is None else quote_string(like)
            return words("SHOW STREAM TABLES", namespace and "IN", namespace, pattern and "LIKE", pattern)
        case DescribeStreamTable(name, extended):
            return words("DESCRIBE STREAM TABLE", extended and "EXTENDED", name)
        case ShowCreateStreamTable(name):
            return f"SHOW CREATE STREAM TABLE {name}"
        case ShowRefreshHistory(of, limit):
            return words("SHOW REFRESH HISTORY", of and "FOR", of, limit is not None and f"LIMIT {limit}")
        case ShowDependencies(of):
            return words("SHOW STREAM TABLE DEPENDENCIES", of and "FOR", of)
        case ExplainStreamTable(name, delta):
            return words("EXPLAIN", delta and "DELTA", "STREAM TABLE", name)
        case VerifyStreamTable(name):
            return f"VERIFY STREAM TABLE {name}"
        case Subscribe() | CopyToStdout() | DeclareCursor() | Fetch() | CloseCursor():
            return _subscribing(statement)
        case _ if isinstance(statement, QueueStatement):
            return _queueing(statement)
        case _:
            return replicating(statement)


def _create(create: CreateStreamTable) -> Iterator[str]:
    """Yield the lines; the schedule and the mode are always written, because people ask for them."""
    opening = words("CREATE", create.or_replace and "OR REPLACE", "STREAM TABLE")
    named = words(opening, create.if_not_exists and "IF NOT EXISTS", create.name)
    yield f"{named} {listed(map(_column, create.columns))}" if create.columns else named
    yield f"SCHEDULE {create.schedule.sql()}"
    yield f"REFRESH MODE {create.mode.value}"
    if not create.with_data:
        yield "WITH NO DATA"
    if create.partitioned_by:
        yield f"PARTITIONED BY {listed(map(quote_name, create.partitioned_by))}"
    if create.clustered_by:
        yield f"CLUSTER BY {listed(map(quote_name, create.clustered_by))}"
    if create.comment is not None:
        yield f"COMMENT {quote_string(create.comment)}"
    if create.location is not None:
        yield f"LOCATION {quote_string(create.location)}"
    if create.properties:
        yield _properties(create.properties)
    yield f"AS\n{create.query.text}"


def _subscribing(statement: SubscribeStatement) -> str:
    match statement:
        case Subscribe():
            return words(*_subscribe(statement))
        case CopyToStdout(subscribe):
            return f"COPY ({to_sql(subscribe)}) TO STDOUT"
        case DeclareCursor(cursor, subscribe):
            return f"DECLARE {quote_name(cursor)} CURSOR FOR {to_sql(subscribe)}"
        case Fetch(cursor, count, timeout):
            limit = timeout is not None and f"WITH (TIMEOUT = '{timeout}ms')"
            return words("FETCH", "ALL" if count is None else str(count), "FROM", quote_name(cursor), limit)
        case CloseCursor(cursor):
            return f"CLOSE {quote_name(cursor)}"


def _queueing(statement: QueueStatement) -> str:
    match statement:
        case CreateQueue(name, subscribe, if_not_exists):
            return words("CREATE QUEUE", if_not_exists and "IF NOT EXISTS", name, "FOR", to_sql(subscribe))
        case DropQueue(name, if_exists, force):
            return words("DROP QUEUE", if_exists and "IF EXISTS", name, force and "FORCE")
        case RegisterConsumer(consumer, queue, at):
            return words("REGISTER CONSUMER", quote_name(consumer), "ON", queue, at is not None and f"AT {at}")
        case UnregisterConsumer(consumer, queue):
            return f"UNREGISTER CONSUMER {quote_name(consumer)} ON {queue}"
        case ShowQueues(namespace):
            return words("SHOW QUEUES", namespace and "IN", namespace)
        case ShowConsumers(queue):
            return f"SHOW CONSUMERS ON {queue}"
        case NextBatch(queue, consumer):
            return f"NEXT BATCH FROM {queue} FOR {quote_name(consumer)}"
        case FinishBatch(queue, consumer):
            return f"FINISH BATCH FROM {queue} FOR {quote_name(consumer)}"


def _subscribe(statement: Subscribe) -> Iterator[str]:
    relation = statement.relation
    yield f"SUBSCRIBE TO {relation if isinstance(relation, Name) else _enclosed(relation.text)}"
    if statement.modifier is not None:
        yield _modifier(statement.modifier)
    options = [*(["PROGRESS"] if statement.progress else []), *([] if statement.snapshot else ["SNAPSHOT = FALSE"])]
    if options:
        yield f"WITH {listed(options)}"
    if statement.as_of is not None:
        yield words("AS OF", statement.at_least and "AT LEAST", str(statement.as_of))
    if statement.up_to is not None:
        yield f"UP TO {statement.up_to}"


def _enclosed(query: str) -> str:
    """Put a query into parentheses; a comment at its end may run to the end of the line."""
    return f"({query}\n)"


def _modifier(modifier: Modifier) -> str:
    match modifier:
        case Upsert(key):
            return f"ENVELOPE UPSERT (KEY {listed(map(quote_name, key))})"
        case Debezium(key):
            return f"ENVELOPE DEBEZIUM (KEY {listed(map(quote_name, key))})"
        case WithinTimestamp(order):
            return f"WITHIN TIMESTAMP ORDER BY {', '.join(map(_order_item, order))}"


def _order_item(item: OrderItem) -> str:
    by = quote_name(item.column) if isinstance(item.column, str) else str(item.column)
    nulls = item.nulls_first is not None and f"NULLS {'FIRST' if item.nulls_first else 'LAST'}"
    return words(by, item.descending and "DESC", nulls)


def _column(column: ColumnSpec) -> str:
    name = quote_name(column.name)
    return name if column.comment is None else f"{name} COMMENT {quote_string(column.comment)}"


def _action(action: Action) -> str:
    match action:
        case SetSchedule(schedule):
            return f"SET SCHEDULE {schedule.sql()}"
        case SetMode(mode):
            return f"SET REFRESH MODE {mode.value}"
        case Suspend():
            return "SUSPEND"
        case Resume():
            return "RESUME"
        case Rename(to):
            return f"RENAME TO {to}"
        case SetProperties(properties):
            return f"SET {_properties(properties)}"
        case SetQuery(query):
            return f"AS\n{query.text}"


def _properties(properties: Iterable[tuple[str, str]]) -> str:
    pairs = (f"{quote_string(key)} = {quote_string(value)}" for key, value in properties)
    return f"TBLPROPERTIES {listed(pairs)}"
