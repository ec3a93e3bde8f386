"""The load of a refresh: how much changed, and how much there is."""

from __future__ import annotations

from dataclasses import dataclass

from streamtable.engine import limits

__all__ = ["Load"]


@dataclass(frozen=True)
class Load:
    """The load of a refresh: changed rows of the sources, all rows of the sources, bytes of their files, and whether rows went.

    Removed source rows make the refresh locate rows in the table; insertions alone do not. `most` names the source with the most
    changed rows, `advice` says how its writers could leave less to read.
    """

    changed: int
    rows: int
    bytes: int = 0
    removes: bool = True
    most: str = ""
    advice: str = ""

    @property
    def small(self) -> bool:
        """Tell whether the change is small enough to be handed to every task, without adaptive execution."""
        return self.changed <= limits.SMALL_CHANGE
