"""Delta of a constant relation (VALUES, range, one row): empty, because nothing changes it. Refuses nothing."""

from __future__ import annotations

from streamtable.algebra.operators import Constant, Operator
from streamtable.differentiate.deltas import Deltas

__all__ = ["delta", "reads", "refuses"]


def refuses(_: Operator) -> str | None:
    return None


def reads(_: Operator) -> str:
    return "nothing"


def delta(_constant: Constant, _: Deltas) -> None:
    return None
