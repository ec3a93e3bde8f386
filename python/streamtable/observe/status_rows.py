"""The status of stream tables as rows: what SHOW STREAM TABLES and stream_tables() answer, and all that is made of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, DataType, DoubleType, IntegerType, LongType, StringType, StructType, TimestampType

from streamtable.catalog.entries import Entry
from streamtable.delta.unreadable import Unreadable
from streamtable.language.names import Name
from streamtable.observe.freshness import Freshness
from streamtable.observe.health import SourceState
from streamtable.observe.look import table_status
from streamtable.observe.results import Row, Rows, columns
from streamtable.observe.status import TableStatus
from streamtable.schedule.switch import switch

__all__ = ["AGE", "LISTED", "STATUS", "age", "status_rows"]

AGE: Mapping[str, type[DataType]] = {
    "data_timestamp": TimestampType,
    "staleness_seconds": DoubleType,
    "stale": BooleanType,
}
"""How old contents are, as columns."""

STATUS = columns(
    name=StringType,
    status=StringType,
    refresh_mode=StringType,
    schedule=StringType,
    state=StringType,
    is_populated=BooleanType,
    **AGE,
    last_success=TimestampType,
    last_attempt=TimestampType,
    next_due=TimestampType,
    row_count=LongType,
    size_bytes=LongType,
    reason=StringType,
    last_action=StringType,
    version=LongType,
    consecutive_errors=IntegerType,
    error=StringType,
    error_condition=StringType,
    query=StringType,
    location=StringType,
    scheduler_suspended=BooleanType,
)
"""The columns of stream_tables()."""

LISTED = StructType(
    [
        STATUS[name]
        for name in (
            "name",
            "status",
            "refresh_mode",
            "schedule",
            "state",
            "last_success",
            "last_attempt",
            "next_due",
            "staleness_seconds",
            "row_count",
            "size_bytes",
            "reason",
            "last_action",
            "version",
            "error",
        )
    ]
)
"""The columns of SHOW STREAM TABLES."""


def age(fresh: Freshness) -> Row:
    """Return the columns AGE."""
    return fresh.data_timestamp, None if fresh.staleness is None else fresh.staleness.total_seconds(), fresh.stale


def status_rows(
    spark: SparkSession, asked: StructType, found: Iterable[tuple[Name, Entry | Unreadable]], fresh: Mapping[str, Freshness]
) -> Rows:
    """Return columns of STATUS, of tables that can be read and of tables that the catalog knows and nobody can read."""
    of_all = {"scheduler_suspended": switch(spark).suspended_since is not None}

    def told(name: Name, each: Entry | Unreadable) -> Mapping[str, Any]:
        if isinstance(each, Unreadable):
            return _unreadable(name, each)
        return {**_told(each, table_status(spark, each, fresh[each.path])), **of_all}

    rows = (told(name, each) for name, each in found)
    return [tuple(each.get(column) for column in asked.names) for each in rows]


def _unreadable(name: Name, found: Unreadable) -> Mapping[str, Any]:
    return {"name": ".".join(name.parts), "status": SourceState.UNREADABLE.value, "error": found.reason}


def _told(entry: Entry, table: TableStatus) -> Mapping[str, Any]:
    data_timestamp, staleness, stale = age(table.fresh)
    return {
        "name": entry.definition.name,
        "status": table.status,
        "refresh_mode": table.mode,
        "schedule": table.schedule,
        "state": table.standing.value,
        "is_populated": entry.state.frontier is not None,
        "data_timestamp": data_timestamp,
        "staleness_seconds": staleness,
        "stale": stale,
        "last_success": table.succeeded_at,
        "last_attempt": table.attempted_at,
        "next_due": table.next_due,
        "row_count": table.size.rows if table.size else None,
        "size_bytes": table.size.bytes if table.size else None,
        "reason": table.reason,
        "last_action": table.last_action,
        "version": table.version,
        "consecutive_errors": table.failures,
        "error": table.trouble,
        "error_condition": table.condition,
        "query": entry.definition.statement.query.text,
        "location": table.path,
    }
