"""Whether the server lives, and whether it can serve, for those who look after processes."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from streamtable.hosts.server.pages import Page

__all__ = ["Health"]

STARTING, READY, STOPPING = "starting", "ready", "stopping"

LONGEST_SILENCE = 120.0
"""For so many seconds the catalog may leave a question without an answer before the server counts as one that cannot serve."""


class Health:
    """What the server is doing; `silence` tells for how many seconds the catalog has not answered."""

    def __init__(self, silence: Callable[[], float]) -> None:
        self._silence = silence
        self._state = STARTING

    def ready(self) -> None:
        """Say that everything listens, unless the server is stopping already."""
        if self._state == STARTING:
            self._state = READY

    def stop(self) -> None:
        """Say that the server is stopping."""
        self._state = STOPPING

    def healthz(self) -> Page:
        """Answer as long as the process can answer."""
        return Page("ok\n")

    def readyz(self) -> Page:
        """Tell whether statements would be answered."""
        if self._state == READY and self._silence() > LONGEST_SILENCE:
            return Page("the catalog does not answer\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Page(f"{self._state}\n", HTTPStatus.OK if self._state == READY else HTTPStatus.SERVICE_UNAVAILABLE)
