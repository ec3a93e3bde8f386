"""The scheduler's interface to the world, which the engine serves with Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from typing import Protocol

from streamtable.delta.tables import Version
from streamtable.refresh.frontier import Vector
from streamtable.schedule.cycle import Refreshed, Task
from streamtable.schedule.due import ScheduledTable

__all__ = ["Again", "Engine", "Failed", "Observation"]


@dataclass(frozen=True)
class Observation:
    """The result of one poll: the stream tables by path, the versions of all tables at that moment, and the settings.

    `suspended`: ALTER SCHEDULER SUSPEND holds for the catalog.
    """

    tables: Mapping[str, ScheduledTable]
    vector: Vector
    poll: timedelta
    parallelism: int
    suspended: bool = False


@dataclass(frozen=True)
class Failed:
    """A table was not refreshed. Its readers are skipped for the same reason."""

    reason: str


@dataclass(frozen=True)
class Again:
    """An attempt failed, and may succeed after `pause`. Until then the table takes no worker."""

    pause: timedelta


class Engine(Protocol):
    """The scheduler's interface to the world."""

    def observe(self) -> Observation:
        """Return the current tables, versions and settings, without a Spark job."""

    def committed(self, versions: Iterable[tuple[str, Version]]) -> bool:
        """Tell whether a table has a commit after the version beside its path. May miss one, but costs next to nothing."""

    def refresh(self, task: Task, attempt: int, stopping: Event) -> Refreshed | Failed | Again:
        """Refresh a table; a transient failure may be tried again. Called on a worker's thread."""

    def skip(self, path: str, reason: str) -> None:
        """Record in the table's history that it was skipped."""

    def cancel(self, task: Task) -> None:
        """Make a running refresh fail soon."""

    def alive(self) -> bool:
        """Tell whether Spark still runs."""
