"""What a query reads: tables in one of their states, and the clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["CLOCK", "Form", "Source"]


class Form(Enum):
    """Which state of a source is read: at the target versions, at the frontier, or the change between the two."""

    NEW = "new"
    OLD = "old"
    DELTA = "delta"


@dataclass(frozen=True)
class Source:
    """A Delta table that a query reads, or the clock; `name` is the catalog's, None for a table named by its path."""

    path: str
    name: str | None

    def __str__(self) -> str:
        return self.name or f"delta.`{self.path}`"


CLOCK = Source("clock", "the clock")
"""What `current_timestamp` and the like read; its version is the instant, in microseconds since 1970."""
