"""How replication says no; the tree is in streamtable.errors."""

from __future__ import annotations

from streamtable.errors import InvalidStatement, RefreshError

__all__ = ["ReplicationConflict", "ReplicationObjectExists", "ReplicationObjectNotFound"]


class ReplicationObjectExists(InvalidStatement):
    """The name belongs to a table, a view, a publication, a subscription or a slot already."""

    condition = "STREAMTABLE_REPLICATION_OBJECT_EXISTS"
    sqlstate = "42710"


class ReplicationObjectNotFound(InvalidStatement):
    """No publication, subscription or replication slot has this name."""

    condition = "STREAMTABLE_REPLICATION_OBJECT_NOT_FOUND"
    sqlstate = "42704"


class ReplicationConflict(RefreshError):
    """A change cannot be applied to the subscriber's table; `position` is the version of the publisher's that made it.

    `insert_exists` says that the row is there already, which `subscription_stats()` counts.
    """

    condition = "STREAMTABLE_REPLICATION_CONFLICT"
    sqlstate = "23505"

    def __init__(self, message: str, position: int, *, insert_exists: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.position = position
        self.insert_exists = insert_exists
