"""The history of a stream table: one record per refresh, failure or skip, in the commits of the table itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum

from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from streamtable.catalog.entries import Entry, storing
from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.commit import commit
from streamtable.errors import ConcurrentRefresh
from streamtable.refresh.choose import Action
from streamtable.refresh.frontier import Frontier

__all__ = ["PATIENCE", "Initiator", "Record", "annotate"]

PATIENCE = Retrying(
    stop=stop_after_attempt(10), wait=wait_random(0, 1), retry=retry_if_exception_type(ConcurrentRefresh), reraise=True
)
"""For what looks at a table and commits to it: a refresh that came first is no reason to fail."""


class Initiator(str, Enum):
    """The initiator of a refresh; people see the value."""

    MANUAL = "MANUAL"
    SCHEDULER = "SCHEDULER"
    INITIAL = "INITIAL"


@dataclass(frozen=True)
class Record:
    """One line of the history. It is the userMetadata of a commit, which fills in the numbers of its rows."""

    action: Action
    reason: str
    duration_ms: int
    sources: Mapping[str, int] = field(default_factory=dict)
    rows_inserted: int = 0
    rows_deleted: int = 0
    initiated_by: str | None = None

    def to_json(self) -> str:
        """Spell the record for the log."""
        return json.dumps({"streamtable": asdict(self)})

    @classmethod
    def of(cls, user_metadata: str | None) -> Record | None:
        """Read a record back; None for userMetadata of other writers."""
        try:
            found = json.loads(user_metadata or "{}")["streamtable"]
            return restored(cls, {each.name: found[each.name] for each in fields(cls) if each.name in found})
        except UNREADABLE:
            return None


def annotate(
    spark: SparkSession,
    entry: Entry,
    record: Record | None = None,
    properties: Mapping[str, str | None] | None = None,
    frontier: Frontier | None = None,
    schema_json: str | None = None,
) -> None:
    """Commit a record, properties or a frontier, without rows. A property that is None is removed. Raises ConcurrentRefresh.

    `frontier` means the same contents as the frontier before it. `schema_json` has the same columns.
    """
    before = Frontier.of(entry.state.frontier)
    with storing(spark, entry, properties) as allows:
        commit(
            spark,
            entry.path,
            read_version=entry.state.version,
            application=entry.definition.id,
            number=before.number if before else 0,
            frontier=frontier.to_json() if frontier else None,
            history=record.to_json() if record else None,
            schema_json=schema_json,
            properties=properties,
            allows=allows,
        )
