"""Ends a server that does not end by itself."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from threading import Thread

from pyspark import SparkContext

from streamtable.hosts.server.stopping import STOPS

__all__ = ["Watchdog"]

_BEGUN = 0
_SECONDS_TO_SAY_IT = 1.0


class Watchdog:
    """Ends the process so many seconds after the first stop signal, or after `begin`, whatever its threads do.

    Python reports signals to the watchdog's thread even while the main thread cannot handle them.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._told, self._tells = os.pipe()
        os.set_blocking(self._tells, False)
        signal.set_wakeup_fd(self._tells, warn_on_full_buffer=False)
        Thread(target=self._watch, name="streamtable watchdog", daemon=True).start()

    def begin(self) -> None:
        """Start the count, even without a signal."""
        os.write(self._tells, bytes([_BEGUN]))

    def _watch(self) -> None:
        while not (told := {_BEGUN, *STOPS} & set(os.read(self._told, 64))):
            pass
        time.sleep(max(self._seconds - _SECONDS_TO_SAY_IT, 0))
        _end(self._seconds, 0 if told & {*STOPS} else 1)


def _end(seconds: float, code: int) -> None:
    saying = Thread(target=_say, args=(seconds,), daemon=True)  # nobody may read it, so that writing takes for ever
    saying.start()
    saying.join(min(_SECONDS_TO_SAY_IT, seconds))
    gateway = SparkContext._gateway
    if java := gateway and getattr(gateway, "proc", None):
        java.kill()  # its own end may be what hangs
    os._exit(code)


def _say(seconds: float) -> None:
    sys.stderr.write(
        f"streamtable: the server did not end within stop_seconds = {seconds:g}, and is ended now. What was not committed has "
        "not happened. Its threads:\n"
    )
    sys.stderr.flush()
    faulthandler.dump_traceback(all_threads=True)
