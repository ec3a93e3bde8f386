"""No delta rule: the table can only be recomputed. Refuses always, with the reason found while reading the query."""

from __future__ import annotations

from streamtable.algebra.operators import Operator, Unsupported
from streamtable.differentiate.deltas import Deltas
from streamtable.errors import InternalError

__all__ = ["delta", "refuses"]


def refuses(operator: Unsupported) -> str:
    return operator.reason


def delta(operator: Unsupported, _: Deltas) -> Operator:
    raise InternalError(f"{operator.name} was to be differentiated although it refuses")
