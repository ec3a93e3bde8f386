"""Liveness and readiness of the server, for process managers."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from streamtable.hosts.server.pages import Page

__all__ = ["Health"]

STARTING, READY, STOPPING = "starting", "ready", "stopping"

LONGEST_SILENCE = 120.0
"""Seconds without an answer of the catalog after which the server counts as not ready."""


class Health:
    """The state of the server. `silence` returns the seconds since the catalog's last answer."""

    def __init__(self, silence: Callable[[], float]) -> None:
        self._silence = silence
        self._state = STARTING

    def ready(self) -> None:
        """Report that all end points listen, unless the server is already stopping."""
        if self._state == STARTING:
            self._state = READY

    def stop(self) -> None:
        """Report that the server is stopping."""
        self._state = STOPPING

    def healthz(self) -> Page:
        """Answer as long as the process can answer."""
        return Page("ok\n")

    def readyz(self) -> Page:
        """Tell whether statements would be answered."""
        if self._state == READY and self._silence() > LONGEST_SILENCE:
            return Page("the catalog does not answer\n", HTTPStatus.SERVICE_UNAVAILABLE)
        return Page(f"{self._state}\n", HTTPStatus.OK if self._state == READY else HTTPStatus.SERVICE_UNAVAILABLE)
