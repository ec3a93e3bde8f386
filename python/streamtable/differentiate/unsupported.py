"""No delta rule: a full refresh is the only way to maintain the table.

Refuses: always, with the reason that the reader of the plan found.

Example, where events changes:

    SELECT * FROM events

becomes

    -- refused: Scan: source events is not a Delta table: it has no change history
"""

from __future__ import annotations

from streamtable.algebra.operators import Operator, Unsupported
from streamtable.differentiate.deltas import Deltas
from streamtable.errors import InternalError

__all__ = ["delta", "refuses"]


def refuses(operator: Unsupported) -> str:
    return operator.reason


def delta(operator: Unsupported, _: Deltas) -> Operator:
    raise InternalError(f"{operator.name} was to be differentiated although it refuses")
