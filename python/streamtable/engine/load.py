"""The load of a refresh: how much changed, and how much there is."""

from __future__ import annotations

from dataclasses import dataclass

from streamtable.engine import limits

__all__ = ["Load"]


@dataclass(frozen=True)
class Load:
    """What a refresh finds: the rows that changed in the sources, all rows of them, their files' bytes, and whether rows went.

    What rows that went have led to must be located in the table; what is only appended is not looked for. `most` names the source
    with the most changed rows, `advice` says how its writers could leave less to read.
    """

    changed: int
    rows: int
    bytes: int = 0
    removes: bool = True
    most: str = ""
    advice: str = ""

    @property
    def small(self) -> bool:
        """Tell whether the change is so small that Spark may be told what it would find out by moving the tables."""
        return self.changed <= limits.SMALL_CHANGE
