"""What the users of a server may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Role", "Standing"]


class Role(str, Enum):
    """The role of a user; the value stands in the file of users."""

    FULL = "full"
    """May do what the server can, through every door."""
    VIEWER = "viewer"
    """May look at the console, and nothing else."""


@dataclass(frozen=True)
class Standing:
    """What a user is now: the role, and a mark that changes with the password."""

    role: Role
    mark: str = field(repr=False)
