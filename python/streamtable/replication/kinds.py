"""The objects of replication: tables without rows, whose property holds the definition and the progress."""

from __future__ import annotations

from streamtable.catalog.kinds import Kind
from streamtable.errors import ReplicationObjectExists, ReplicationObjectNotFound

__all__ = ["PUBLICATION", "SLOT", "SUBSCRIPTION"]


def _kind(noun: str, function: str, *moving: str) -> Kind:
    listed_by = f"the table function {function}()"
    return Kind(noun, listed_by, ReplicationObjectExists, ReplicationObjectNotFound, frozenset(moving))


PUBLICATION = _kind("publication", "publications")
SUBSCRIPTION = _kind("subscription", "subscriptions", "enabled", "tables")
SLOT = _kind("replication slot", "replication_slots", "positions")
