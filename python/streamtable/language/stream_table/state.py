"""STATE: which optional states a stream table stores, as a clause of CREATE and an action of ALTER."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["SetState", "StateMode"]


class StateMode(str, Enum):
    """NONE stores no optional state, ALL stores each, AUTO those whose rows are scattered over the files of their tables."""

    NONE = "NONE"
    AUTO = "AUTO"
    ALL = "ALL"


@dataclass(frozen=True)
class SetState:
    """SET STATE."""

    state: StateMode
