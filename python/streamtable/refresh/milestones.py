"""The points between two writes of a refresh; the crash tests kill the process there."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MILESTONES", "reached", "watch"]

MILESTONES = (
    "before the arrangements",
    "between the arrangements",
    "before the table",
    "after the table",
)

_watchers: list[Callable[[str], None]] = []


def reached(milestone: str) -> None:
    """Tell the watchers; without one, nothing happens."""
    for watcher in _watchers:
        watcher(milestone)


def watch(watcher: Callable[[str], None]) -> None:
    """Call `watcher` with each milestone that is reached from now on."""
    _watchers.append(watcher)
