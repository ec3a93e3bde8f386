"""Objects of the catalog: their kind, their name and place, and the content of their property."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from streamtable.errors import (
    DefinitionUnreadable,
    InvalidStatement,
    QueueExists,
    QueueNotFound,
    ReplicationObjectExists,
    ReplicationObjectNotFound,
    StreamTableError,
)
from streamtable.language.names import Name
from streamtable.language.parse import parse

__all__ = ["KINDS", "PUBLICATION", "QUEUE", "SLOT", "SUBSCRIPTION", "CatalogObject", "Kind", "is_one", "statement_of", "unreadable"]

Statement = TypeVar("Statement")

_PREFIX = "streamtable.object."
"""The prefix of the properties that hold objects."""


@dataclass(frozen=True)
class Kind:
    """The kind of an object. `noun` is its name for people, `listed_by` the statement that lists all objects of the kind.

    `moving` are the parts of the content that record progress only; they do not decide what runs.
    """

    noun: str
    listed_by: str
    exists: type[InvalidStatement]
    not_found: type[InvalidStatement]
    moving: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """Return the property that every table of the kind has."""
        return _PREFIX + self.noun.replace(" ", "_")

    def code(self, content: Mapping[str, Any]) -> dict[str, str]:
        """Return the parts of the content that decide what runs, by which the catalog knows the object."""
        parts = {part: json.dumps(value, sort_keys=True) for part, value in content.items() if part not in self.moving}
        return {self.key: self.noun, **parts}


def _of_replication(noun: str, function: str, *moving: str) -> Kind:
    listed_by = f"the table function {function}()"
    return Kind(noun, listed_by, ReplicationObjectExists, ReplicationObjectNotFound, frozenset(moving))


QUEUE = Kind("queue", "SHOW QUEUES", QueueExists, QueueNotFound)
PUBLICATION = _of_replication("publication", "publications")
SUBSCRIPTION = _of_replication("subscription", "subscriptions", "enabled", "tables")
SLOT = _of_replication("replication slot", "replication_slots", "positions")
KINDS = (QUEUE, PUBLICATION, SUBSCRIPTION, SLOT)


@dataclass(frozen=True)
class CatalogObject:
    """An object, read from its table at `version`. `content` is the value of its property."""

    kind: Kind
    name: tuple[str, ...]
    path: str
    version: int
    content: Mapping[str, Any]

    def __str__(self) -> str:
        return ".".join(self.name)


def statement_of(stored: CatalogObject, kind: type[Statement]) -> Statement:
    """Return the statement that an object holds. Raises DefinitionUnreadable."""
    try:
        statement = parse(stored.content["sql"])
    except (StreamTableError, LookupError, TypeError) as error:
        raise unreadable(stored, error) from error
    if not isinstance(statement, kind):
        raise unreadable(stored, TypeError(f"it is no {kind.__name__}"))
    return statement


def unreadable(stored: CatalogObject, error: Exception) -> DefinitionUnreadable:
    """Return the error of an object whose content is damaged, or of a later version."""
    message = f"what the {stored.kind.noun} {stored} holds cannot be read: {error}"
    return DefinitionUnreadable(message, hint=f"DROP TABLE {Name(stored.name)}, and create it again")


def is_one(properties: Mapping[str, str]) -> bool:
    """Tell whether a table with these properties is an object, which is never published."""
    return any(key.startswith(_PREFIX) for key in properties)
