"""The signs by which a scheduler looks at the tables before its next poll: a commit of a source, and the end of a refresh."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from streamtable.delta.tables import Version
from streamtable.schedule.due import Plan
from streamtable.schedule.interface import Observation

__all__ = ["Signs"]


@dataclass(frozen=True)
class Watched:
    """A table that a commit after these versions of its sources makes due, from the time `start` on."""

    start: datetime
    versions: Mapping[str, Version]


class Signs:
    """What a plan waits for. `committed` tells whether a table has a commit after a version."""

    def __init__(self, committed: Callable[[Iterable[tuple[str, Version]]], bool]) -> None:
        self._committed = committed
        self.watched: Mapping[str, Watched] = {}
        self.waiting: Mapping[str, frozenset[str]] = {}

    def expect(self, found: Plan, busy: Mapping[str, datetime], observation: Observation) -> None:
        """Watch the sources from the versions on that the refreshes since the last look, or this one, have."""
        latest, before = observation.vector.versions, self.watched
        self.watched = {
            path: replace(before[path], start=start)
            if path in busy and path in before
            else Watched(start, {source: latest[source] for source in observation.tables[path].sources if source in latest})
            for path, start in found.watched.items()
        }
        self.waiting = found.waiting

    def forget(self) -> None:
        """Wait for nothing but the next poll."""
        self.watched, self.waiting = {}, {}

    def seen(self, now: datetime, busy: Mapping[str, datetime]) -> bool:
        """Tell whether a table that was due needs no busy table any more, or a source has a commit."""
        if any(needed.isdisjoint(busy) for needed in self.waiting.values()):
            return True
        waiting = (each for path, each in self.watched.items() if each.start <= now and path not in busy)
        return self._committed({source for each in waiting for source in each.versions.items()})
