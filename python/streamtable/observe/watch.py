"""Alerts of a running scheduler: each is reported once, to the log and to a callback."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Thread

from pyspark.sql import SparkSession

from streamtable.catalog.entries import entries
from streamtable.observe.alerts import Alert, alerts
from streamtable.observe.freshness import freshness
from streamtable.observe.health import health
from streamtable.schedule.poll import poll
from streamtable.settings.session import ALERTS_POLL

__all__ = ["Watch"]

log = logging.getLogger("streamtable.alerts")


class Watch:
    """Polls all stream tables, slots and queues of the session's catalog, and reports new alerts."""

    def __init__(self, spark: SparkSession, on_alert: Callable[[Alert], object] | None = None) -> None:
        self._spark = spark
        self._on_alert = on_alert
        self._told: set[Alert] = set()

    def start(self, stopped: Callable[[float], bool]) -> Thread:
        """Look from now on; see `poll`."""
        return poll("alerts", self.poll, self._spark, ALERTS_POLL, stopped)

    def poll(self) -> None:
        """Report new alerts. Alerts that are over are forgotten; if they return, they are reported again."""
        found = list(entries(self._spark))
        now = set(alerts(self._spark, found, freshness(self._spark, found), health(self._spark, found)))
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
