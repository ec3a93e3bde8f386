"""How many rows meet the expectations of a table: kept with the frontier, told in the history. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Counts"]


@dataclass(frozen=True)
class Counts:
    """`rows` is how many rows the query has before any is dropped, `failed` how many of them fail each expectation, by its name."""

    rows: int
    failed: Mapping[str, int]

    def plus(self, change: Counts) -> Counts:
        """Return the counts after a change."""
        return Counts(self.rows + change.rows, {name: number + change.failed[name] for name, number in self.failed.items()})

    def passed(self, name: str) -> int:
        """Return how many rows meet an expectation."""
        return self.rows - self.failed[name]

    def __str__(self) -> str:
        """Spell the counts as an object of JSON."""
        return json.dumps({name: {"passed": self.passed(name), "failed": number} for name, number in self.failed.items()})
