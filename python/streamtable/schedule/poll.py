"""Threads of a scheduler that poll."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread

from pyspark.sql import SparkSession

from streamtable.settings.session import Setting, read_setting

__all__ = ["poll"]

log = logging.getLogger("streamtable.scheduler")


def poll(
    name: str, look: Callable[[], object], spark: SparkSession, pause: Setting[float], stopped: Callable[[float], bool]
) -> Thread:
    """Poll in a thread until `stopped`, which waits for the given seconds, returns true. A poll that fails is logged.

    The current value of the session's setting `pause` is read before each poll.
    """

    first = read_setting(spark, pause)

    def looked(seconds: float) -> float:
        try:
            look()
            return read_setting(spark, pause)
        except Exception:  # whatever it is, it must not be the last look
            log.exception("%s failed, and will look again", name)
            return seconds

    def work() -> None:
        seconds = first
        while not stopped(seconds):
            seconds = looked(seconds)

    thread = Thread(target=work, name=f"streamtable {name}", daemon=True)
    thread.start()
    return thread
