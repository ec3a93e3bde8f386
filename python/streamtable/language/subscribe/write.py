"""SUBSCRIBE and its cursors as text."""

from __future__ import annotations

from collections.abc import Iterator

from streamtable.language.names import Name
from streamtable.language.subscribe.ast import (
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
from streamtable.sql.literals import enclosed, listed, quote_name, words


def subscribe_sql(statement: SubscribeStatement) -> str:
    """Return the statement as text."""
    match statement:
        case Subscribe():
            return words(*_subscribe(statement))
        case CopyToStdout(subscribe):
            return f"COPY ({subscribe_sql(subscribe)}) TO STDOUT"
        case DeclareCursor(cursor, subscribe):
            return f"DECLARE {quote_name(cursor)} CURSOR FOR {subscribe_sql(subscribe)}"
        case Fetch(cursor, count, timeout):
            limit = timeout is not None and f"WITH (TIMEOUT = '{timeout}ms')"
            return words("FETCH", "ALL" if count is None else str(count), "FROM", quote_name(cursor), limit)
        case CloseCursor(cursor):
            return f"CLOSE {quote_name(cursor)}"


def _subscribe(statement: Subscribe) -> Iterator[str]:
    relation = statement.relation
    yield f"SUBSCRIBE TO {relation if isinstance(relation, Name) else enclosed(relation.text)}"
    if statement.modifier is not None:
        yield _modifier(statement.modifier)
    options = [*(["PROGRESS"] if statement.progress else []), *([] if statement.snapshot else ["SNAPSHOT = FALSE"])]
    if options:
        yield f"WITH {listed(options)}"
    if statement.as_of is not None:
        yield words("AS OF", statement.at_least and "AT LEAST", str(statement.as_of))
    if statement.up_to is not None:
        yield f"UP TO {statement.up_to}"


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
