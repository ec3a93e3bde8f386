"""A version of a table, known by the table, its number and its commit."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Version"]


@dataclass(frozen=True, eq=False)
class Version:
    """A version of a table; the id changes when the table is recreated.

    `commit` tells the version's commit from another one of its number. There is one after an older copy of the table's folder took
    its place, and was written to. None where nobody knows: earlier releases did not record it, and a log may lose it.

    Versions are equal unless they are known to differ.
    """

    table_id: str
    number: int
    commit: str | None = None

    def replaces(self, other: Version) -> bool:
        """Tell whether the two are known to be different commits of one number."""
        known = self.commit is not None and other.commit is not None
        return known and self.commit != other.commit and self._place == other._place

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._place == other._place and not self.replaces(other)

    def __hash__(self) -> int:
        return hash(self._place)

    @property
    def _place(self) -> tuple[str, int]:
        return self.table_id, self.number
