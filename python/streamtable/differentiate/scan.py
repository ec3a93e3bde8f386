"""Delta of a source table.

    D(T) = T' - T, as the table's own change history gives it: each row that came with +1, each that went with -1.

Rows of a constant (VALUES, range) never change: their delta is empty.
Refuses: sources without a change history (those are read as `Unsupported`).
"""

from __future__ import annotations

from dataclasses import replace

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.operators import Operator, Scan
from streamtable.algebra.sources import Snapshot
from streamtable.differentiate.deltas import Deltas

__all__ = ["delta", "reads", "refuses"]


def refuses(_: Operator) -> str | None:
    return None


def reads(_: Operator) -> str:
    return "what changed of the table: its change data feed where that is on, else the files that came and went"


def delta(scan: Scan, _: Deltas) -> Operator:
    return replace(scan, snapshot=Snapshot.CHANGE, columns=(*scan.columns, WEIGHT))
