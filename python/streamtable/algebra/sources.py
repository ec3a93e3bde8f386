"""What a query reads: tables in one of their states, and the clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["CLOCK", "Snapshot", "Source"]


class Snapshot(Enum):
    """Which rows of a source are read: those at the target versions, those at the frontier, or the change between the two."""

    TARGET = "new"
    FRONTIER = "old"
    CHANGE = "delta"


@dataclass(frozen=True)
class Source:
    """A Delta table that a query reads, or the clock; `name` is the catalog's, None for a table named by its path."""

    path: str
    name: str | None

    def __str__(self) -> str:
        return self.name or f"delta.`{self.path}`"


CLOCK = Source("clock", "the clock")
"""What `current_timestamp` and the like read; its version is the instant, in microseconds since 1970."""
