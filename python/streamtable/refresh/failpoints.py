"""The points between two writes of a refresh; the crash tests kill the process there."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["FAILPOINTS", "failpoint", "watch"]

FAILPOINTS = (
    "before the arrangements",
    "between the arrangements",
    "before the table",
    "after the table",
)

_watchers: list[Callable[[str], None]] = []


def failpoint(point: str) -> None:
    """Call the watchers, if there are any."""
    for watcher in _watchers:
        watcher(point)


def watch(watcher: Callable[[str], None]) -> None:
    """Call `watcher` with each point that is reached from now on."""
    _watchers.append(watcher)
