"""Wait for the signal that ends a process."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

__all__ = ["STOPS", "Stopping"]

STOPS = (signal.SIGTERM, signal.SIGINT)
LOOK_EVERY = 1.0
"""Seconds between two looks at what has to be alive."""


class Stopping:
    """Hears SIGTERM and Ctrl-C from `listen` on, and calls `first` at each."""

    def __init__(self, first: Callable[[], object] = lambda: None) -> None:
        self._told = SimpleQueue[int]()  # unlike an Event, a signal may write to it while the same thread waits for it
        self._first = first

    def listen(self) -> None:
        """Handle the signals. Pyspark takes Ctrl-C for itself when Spark starts: call this again then."""
        for signum in STOPS:
            signal.signal(signum, self._hear)

    def wait(self, alive: Callable[[], bool]) -> bool:
        """Wait for a signal; return False where `alive` ceased to hold before."""
        while True:
            with suppress(Empty):
                self._told.get(timeout=LOOK_EVERY)
                return True
            if not alive():
                return False

    def let_go(self) -> None:
        """Let the next signal end the process at once, whatever it waits for."""
        for signum, default in ((signal.SIGTERM, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
            if signal.getsignal(signum) == self._hear:
                signal.signal(signum, default)

    def _hear(self, received: int, _: object) -> None:
        self._first()
        self._told.put(received)
