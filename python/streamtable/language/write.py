"""Statements as text, in one spelling: names in backquotes, clauses in a fixed order. `parse` reads it back."""

from __future__ import annotations

from streamtable.language.parse import AnyStatement
from streamtable.language.queue.ast import QueueStatement
from streamtable.language.queue.write import queue_sql
from streamtable.language.replication.ast import ReplicationStatement
from streamtable.language.replication.write import replication_sql
from streamtable.language.stream_table.write import stream_table_sql
from streamtable.language.subscribe.ast import SubscribeStatement
from streamtable.language.subscribe.write import subscribe_sql

__all__ = ["to_sql"]


def to_sql(statement: AnyStatement) -> str:
    """Return the statement as text. SHOW CREATE STREAM TABLE shows this."""
    if isinstance(statement, SubscribeStatement):
        return subscribe_sql(statement)
    if isinstance(statement, QueueStatement):
        return queue_sql(statement)
    if isinstance(statement, ReplicationStatement):
        return replication_sql(statement)
    return stream_table_sql(statement)
