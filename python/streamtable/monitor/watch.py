"""Alerts that come by themselves: each is told once, to the log and to whoever asked to be called."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread

from pyspark.sql import SparkSession

from streamtable import config
from streamtable.catalog.entries import entries
from streamtable.monitor.alerts import Alert, alerts
from streamtable.monitor.freshness import freshness

__all__ = ["Watch"]

log = logging.getLogger("streamtable.alerts")


class Watch:
    """Looks at all stream tables of the session's catalog now and then, and tells what is new."""

    def __init__(self, spark: SparkSession, on_alert: Callable[[Alert], object] | None = None) -> None:
        self._spark = spark
        self._on_alert = on_alert
        self._told: set[Alert] = set()
        self._pause = config.read(spark, config.ALERTS_POLL)

    def start(self, stopped: Callable[[float], bool]) -> None:
        """Look from now on, in a thread, until `stopped`, which waits for so many seconds, says so."""

        def run() -> None:
            while not stopped(self._pause):
                self.look()

        Thread(target=run, name="streamtable alerts", daemon=True).start()

    def look(self) -> None:
        """Tell the alerts that were not told before; what is over is forgotten and would be told again."""
        try:
            self._pause = config.read(self._spark, config.ALERTS_POLL)
            found = list(entries(self._spark))
            now = set(alerts(self._spark, found, freshness(self._spark, found)))
        except Exception:  # whatever it is, it must not be the last look
            log.exception("the stream tables cannot be looked at")
            return
        for alert in sorted(now - self._told, key=lambda each: (each.name, each.kind)):
            self._tell(alert)
        self._told = now

    def _tell(self, alert: Alert) -> None:
        log.warning("%s %s: %s", alert.kind.value, alert.name, alert.text)
        if self._on_alert:
            try:
                self._on_alert(alert)
            except Exception:  # the others are to be told as well
                log.exception("the function that is called with alerts fails")
