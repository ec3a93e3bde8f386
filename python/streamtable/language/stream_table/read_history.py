"""The rules of BACKFILL and FROZEN."""

from __future__ import annotations

from lark import v_args
from lark.tree import Meta

from streamtable.language.names import Condition, Name
from streamtable.language.stream_table.history import Backfill, SetFrozen
from streamtable.language.transformer import Clause, Rules

__all__ = ["HistoryRules"]


@v_args(meta=True, inline=True)
class HistoryRules(Rules):
    """The rules of rows that do not come from the query."""

    def backfill(self, at: Meta, table: Name, trusted: bool | None = None) -> Clause:
        return Clause("BACKFILL FROM", "backfill", Backfill(table, bool(trusted)), at)

    def verified(self, at: Meta) -> bool:
        return False

    def trusted(self, at: Meta) -> bool:
        return True

    def frozen(self, at: Meta, condition: Condition) -> Clause:
        return Clause("FROZEN WHERE", "frozen", condition, at)

    def set_frozen(self, at: Meta, clause: Clause) -> SetFrozen:
        return SetFrozen(clause.value)

    def drop_frozen(self, at: Meta) -> SetFrozen:
        return SetFrozen(None)
