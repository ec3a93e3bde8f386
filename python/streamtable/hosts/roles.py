"""What the users of a server may do."""

from __future__ import annotations

from enum import Enum

__all__ = ["Role"]


class Role(str, Enum):
    """The role of a user; the value stands in the file of users."""

    FULL = "full"
    """May do what the server can, through every door."""
    VIEWER = "viewer"
    """May look at the console, and nothing else."""
