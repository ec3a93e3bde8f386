"""The phases of a refresh, and how long each takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import Enum

__all__ = ["Phase", "Phases"]


class Phase(str, Enum):
    """A part of a refresh; people see the value.

    Spark computes rows when something needs them first. WRITE computes all that no phase before it needed.
    """

    ANALYSE = "analyse"
    CHOOSE = "choose"
    COMPUTE = "compute"
    """Plan the change, and compute as much of it as it takes to find the rows that go."""
    STATES = "states"
    WRITE = "write"
    GIVEN_UP = "given up"
    """A differential refresh that failed, before the full one in its place."""


class Phases:
    """Measures the phases of one refresh. Each begins where the one before it ends, so that their times add up."""

    def __init__(self, began: float) -> None:
        self._since = began
        self._seconds: dict[Phase, float] = {}

    def ended(self, phase: Phase) -> None:
        """Count the time since the end of the phase before."""
        before, self._since = self._since, time.perf_counter()
        self._seconds[phase] = self._seconds.get(phase, 0.0) + self._since - before

    @property
    def ms(self) -> Mapping[str, int]:
        """Return the milliseconds of each phase that took any, in the order of their ends."""
        found = {phase.value: round(1000 * seconds) for phase, seconds in self._seconds.items()}
        return {phase: ms for phase, ms in found.items() if ms}
