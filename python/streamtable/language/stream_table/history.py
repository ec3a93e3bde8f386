"""Rows that do not come from the query, as data: the first contents of a table, and rows that are frozen."""

from __future__ import annotations

from dataclasses import dataclass

from streamtable.language.names import Condition, Name

__all__ = ["Backfill", "SetFrozen"]


@dataclass(frozen=True)
class Backfill:
    """BACKFILL FROM: the table whose rows are the first contents. Those of a `trusted` one are not compared with the query."""

    table: Name
    trusted: bool = False


@dataclass(frozen=True)
class SetFrozen:
    """SET FROZEN WHERE: rows for which the condition is TRUE stay as they are. DROP FROZEN, without one: no row does."""

    condition: Condition | None
