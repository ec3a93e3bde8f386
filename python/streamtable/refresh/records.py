"""The history of a stream table: one record per refresh, failure or skip, in the commits of the table itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from enum import Enum

from pyspark.sql import SparkSession
from tenacity import stop_after_attempt, wait_random

from streamtable.catalog.entries import Entry, storing
from streamtable.catalog.requests import ended
from streamtable.catalog.restored import UNREADABLE, restored
from streamtable.delta.commit import Metadata, Transaction, again_after_conflicts, commit
from streamtable.refresh.choose import Action
from streamtable.refresh.counts import Counts
from streamtable.refresh.frontier import Frontier

__all__ = ["MANUAL", "PATIENCE", "Cause", "Initiator", "Record", "annotate"]

PATIENCE = again_after_conflicts(stop_after_attempt(10), wait_random(0, 1))
"""The policy of statements that change a definition: a refresh that came first is no reason to fail."""

_LONGEST = 10**12
"""Milliseconds, 31 years. Whoever can write the log may claim that a refresh took longer than a datetime can tell."""


class Initiator(str, Enum):
    """The initiator of a refresh; people see the value."""

    MANUAL = "MANUAL"
    SCHEDULER = "SCHEDULER"
    REQUEST = "REQUEST"
    IMMEDIATE = "IMMEDIATE"
    INITIAL = "INITIAL"


@dataclass(frozen=True)
class Cause:
    """Why a refresh runs: its initiator, the deadline that a scheduler had for it, and the request that it ends."""

    initiator: Initiator
    deadline: datetime | None = None
    request: str | None = None


MANUAL = Cause(Initiator.MANUAL)


@dataclass(frozen=True)
class Record:
    """One line of the history. It is the userMetadata of a commit, which fills in the numbers of its rows.

    `request` is the request that the line ends; its commit removes the request. `deadline` is the time by which a schedule, or a
    request, asked for the refresh. `phases` are the milliseconds of each phase, `states` the groups that a differential refresh
    wrote to each state.
    """

    action: Action
    reason: str
    duration_ms: int
    sources: Mapping[str, int] = field(default_factory=dict)
    rows_inserted: int = 0
    rows_deleted: int = 0
    initiated_by: str | None = None
    counts: Counts | None = None
    request: str | None = None
    deadline: datetime | None = None
    phases: Mapping[str, int] = field(default_factory=dict)
    states: Mapping[str, int] = field(default_factory=dict)

    def because_of(self, cause: Cause) -> Record:
        """Return the line with the cause of the refresh."""
        return replace(self, initiated_by=cause.initiator.value, request=cause.request, deadline=cause.deadline)

    def to_json(self) -> str:
        """Spell the record for the log."""
        return json.dumps({"streamtable": asdict(self)}, default=datetime.isoformat)

    @classmethod
    def of(cls, user_metadata: str | None) -> Record | None:
        """Read a record back; None for userMetadata of other writers."""
        try:
            found = json.loads(user_metadata or "{}")["streamtable"]
            record = restored(cls, {each.name: found[each.name] for each in fields(cls) if each.name in found})
        except UNREADABLE:
            return None
        return record if all(0 <= ms <= _LONGEST for ms in (record.duration_ms, *record.phases.values())) else None


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
    if record and record.request:
        properties = {**(properties or {}), **ended(record.request)}
    with storing(spark, entry, properties) as allows:
        commit(
            spark,
            entry.path,
            entry.state.version,
            Transaction(entry.definition.id, before.number if before else 0),
            metadata=Metadata(
                frontier=frontier.to_json() if frontier else None,
                history=record.to_json() if record else None,
                schema_json=schema_json,
                properties=properties,
            ),
            allows=allows,
            table_id=entry.state.table_id,
        )
