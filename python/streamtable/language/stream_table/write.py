"""Stream tables as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamtable.language.names import Condition, Name
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
from streamtable.language.stream_table.expectations import AddExpectation, DropExpectation, Expectation, Violation
from streamtable.language.stream_table.history import SetFrozen
from streamtable.language.stream_table.schedule import Unsaid
from streamtable.language.stream_table.scheduler import AlterScheduler
from streamtable.language.stream_table.state import SetState, StateMode
from streamtable.sql.literals import listed, quote_name, quote_string, words

__all__ = ["expectation_sql", "stream_table_sql"]


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
        case AlterScheduler(suspend):
            return words("ALTER SCHEDULER", "SUSPEND" if suspend else "RESUME")
        case DropStreamTable(name, if_exists, cascade):
            return words("DROP STREAM TABLE", if_exists and "IF EXISTS", name, cascade and "CASCADE")
        case RefreshStreamTable(names, full, cascade, later):
            how = full and "FULL", cascade and "CASCADE", later and "ASYNC"
            return words("REFRESH STREAM TABLE", ", ".join(map(str, names)), *how)
        case RefreshStreamTables(namespace, like, full, later):
            return words("REFRESH STREAM TABLES", _selection(namespace, like), full and "FULL", later and "ASYNC")
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
    """Yield the lines. The schedule of a table and the mode are always written, because people ask for them."""
    replaced = "OR REFRESH" if create.or_refresh else create.or_replace and "OR REPLACE"
    opening = words("CREATE", replaced, "STREAM TABLE")
    named = words(opening, create.if_not_exists and "IF NOT EXISTS", create.name)
    inside = [*map(_column, create.columns), *map(expectation_sql, create.expectations)]
    yield f"{named} {listed(inside)}" if inside else named
    if not isinstance(create.schedule, Unsaid):
        yield f"SCHEDULE {create.schedule.sql()}"
    yield f"REFRESH MODE {create.mode.value}"
    if create.state is not StateMode.AUTO:
        yield f"STATE {create.state.value}"
    if not create.with_data:
        yield "WITH NO DATA"
    if create.backfill:
        yield words("BACKFILL FROM", create.backfill.table, create.backfill.trusted and "TRUSTED")
    if create.frozen:
        yield _frozen(create.frozen)
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


def expectation_sql(expectation: Expectation) -> str:
    """Return an expectation as it stands in CREATE and ALTER."""
    action = "" if expectation.violation is Violation.KEEP else f" ON VIOLATION {expectation.violation.value}"
    return f"CONSTRAINT {quote_name(expectation.name)} EXPECT {_inside(expectation.condition)}{action}"


def _frozen(condition: Condition) -> str:
    return f"FROZEN WHERE {_inside(condition)}"


def _inside(condition: Condition) -> str:
    # It may end with a comment, and that with a backslash, which takes the next line along.
    end = "\n\n" if condition.text.endswith("\\") else "\n" if "--" in condition.text else ""
    return f"({condition.text}{end})"


def _action(action: Action) -> str:
    match action:
        case SetSchedule(schedule):
            return f"SET SCHEDULE {schedule.sql()}"
        case SetMode(mode):
            return f"SET REFRESH MODE {mode.value}"
        case SetState(state):
            return f"SET STATE {state.value}"
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
        case AddExpectation(expectation):
            return f"ADD {expectation_sql(expectation)}"
        case DropExpectation(name, if_exists):
            return words("DROP CONSTRAINT", if_exists and "IF EXISTS", quote_name(name))
        case SetFrozen(condition):
            return f"SET {_frozen(condition)}" if condition else "DROP FROZEN"
        case SetQuery(query):
            return f"AS\n{query.text}"


def _properties(properties: Iterable[tuple[str, str]]) -> str:
    pairs = (f"{quote_string(key)} = {quote_string(value)}" for key, value in properties)
    return f"TBLPROPERTIES {listed(pairs)}"
