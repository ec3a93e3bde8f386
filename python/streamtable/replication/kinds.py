"""The objects of replication: tables without rows, whose property holds what they are and have come to."""

from __future__ import annotations

from streamtable.catalog.objects import Kind
from streamtable.errors import ReplicationObjectExists, ReplicationObjectNotFound

__all__ = ["PUBLICATION", "SLOT", "SUBSCRIPTION"]


def _kind(noun: str, function: str) -> Kind:
    return Kind(noun, f"the table function {function}()", ReplicationObjectExists, ReplicationObjectNotFound)


PUBLICATION = _kind("publication", "publications")
SUBSCRIPTION = _kind("subscription", "subscriptions")
SLOT = _kind("replication slot", "replication_slots")
