"""The tables that a query reads, and in which of their states."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Form", "Source"]


class Form(Enum):
    """Which state of a source is read: at the target versions, at the frontier, or the change between the two."""

    NEW = "new"
    OLD = "old"
    DELTA = "delta"


@dataclass(frozen=True)
class Source:
    """A Delta table that a query reads; `name` is the catalog's, None for a table named by its path."""

    path: str
    name: str | None

    def __str__(self) -> str:
        return self.name or f"delta.`{self.path}`"
