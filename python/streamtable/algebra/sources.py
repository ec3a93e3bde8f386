"""The sources of a query: Delta tables in one of three snapshots, and the clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["CLOCK", "Snapshot", "Source"]


class Snapshot(Enum):
    """The rows of a source to read: at the target version, at the frontier, or the change between both.

    The frontier is the versions of the sources at the last refresh, the target those at this one.
    """

    TARGET = "new"
    FRONTIER = "old"
    CHANGE = "delta"


@dataclass(frozen=True)
class Source:
    """A Delta table that a query reads, or the clock. `name` is the catalog's name, None for a table by path."""

    path: str
    name: str | None

    def __str__(self) -> str:
        return self.name or f"delta.`{self.path}`"


CLOCK = Source("clock", "the clock")
"""The source of `current_timestamp` and the like. Its version is the instant, in microseconds since 1970."""
