"""Stream tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamtable.language.names import Name
from streamtable.language.stream_table.ast import (
    AcceptDefinition,
    Action,
    AlterStreamTable,
    ColumnSpec,
    CommentColumns,
    CreateStreamTable,
    DescribeStreamTable,
    DropStreamTable,
    ExplainAlter,
    ExplainCreate,
    ExplainStreamTable,
    RefreshStreamTable,
    RefreshStreamTables,
    Rename,
    Resume,
    SetComment,
    SetMode,
    SetProperties,
    SetQuery,
    SetSchedule,
    ShowCreateStreamTable,
    ShowDependencies,
    ShowRefreshHistory,
    ShowStreamTables,
    Statement,
    Suspend,
    UnsetProperties,
    VerifyStreamTable,
    VerifyStreamTables,
)
from streamtable.sql.literals import listed, quote_name, quote_string, words

__all__ = ["stream_table_sql"]


def stream_table_sql(statement: Statement) -> str:
    """Return a statement on stream tables as text."""
    match statement:
        case CreateStreamTable():
            return "\n".join(_create(statement))
        case ExplainCreate(create):
            return f"EXPLAIN {stream_table_sql(create)}"
        case ExplainAlter(name, action):
            return f"EXPLAIN ALTER STREAM TABLE {name} {_action(action)}"
        case AlterStreamTable(name, action):
            return f"ALTER STREAM TABLE {name} {_action(action)}"
        case DropStreamTable(name, if_exists, cascade):
            return words("DROP STREAM TABLE", if_exists and "IF EXISTS", name, cascade and "CASCADE")
        case RefreshStreamTable(names, full, cascade):
            return words("REFRESH STREAM TABLE", ", ".join(map(str, names)), full and "FULL", cascade and "CASCADE")
        case RefreshStreamTables(namespace, like, full):
            return words("REFRESH STREAM TABLES", _selection(namespace, like), full and "FULL")
        case ShowStreamTables(namespace, like):
            return words("SHOW STREAM TABLES", _selection(namespace, like))
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
        case VerifyStreamTables(namespace, like):
            return words("VERIFY STREAM TABLES", _selection(namespace, like))


def _selection(namespace: Name | None, like: str | None) -> str:
    pattern = None if like is None else quote_string(like)
    return words(namespace and "IN", namespace, pattern and "LIKE", pattern)


def _create(create: CreateStreamTable) -> Iterator[str]:
    """Yield the lines; the schedule and the mode are always written, because people ask for them."""
    replaced = "OR REFRESH" if create.or_refresh else create.or_replace and "OR REPLACE"
    opening = words("CREATE", replaced, "STREAM TABLE")
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
        case AcceptDefinition():
            return "ACCEPT DEFINITION"
        case Rename(to):
            return f"RENAME TO {to}"
        case SetProperties(properties):
            return f"SET {_properties(properties)}"
        case UnsetProperties(keys, if_exists):
            return words("UNSET TBLPROPERTIES", if_exists and "IF EXISTS", listed(map(quote_string, keys)))
        case SetComment(comment):
            return f"SET COMMENT {quote_string(comment)}"
        case CommentColumns(comments):
            columns = (f"{quote_name(column)} COMMENT {quote_string(comment)}" for column, comment in comments)
            return f"ALTER COLUMN {', '.join(columns)}"
        case SetQuery(query):
            return f"AS\n{query.text}"


def _properties(properties: Iterable[tuple[str, str]]) -> str:
    pairs = (f"{quote_string(key)} = {quote_string(value)}" for key, value in properties)
    return f"TBLPROPERTIES {listed(pairs)}"
