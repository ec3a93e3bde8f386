"""Alerts of a running scheduler: each is reported once to the log and to listeners, and those that hold at each look to queues."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from threading import Thread

from pyspark.sql import SparkSession

from streamtable.catalog.entries import listed, readable, unreadable
from streamtable.observe.alerts import Alert, alerts
from streamtable.observe.freshness import freshness
from streamtable.observe.health import health
from streamtable.schedule.poll import poll
from streamtable.settings.session import ALERTS_POLL

__all__ = ["Watch"]

log = logging.getLogger("streamtable.alerts")


class Watch:
    """Polls all stream tables, slots and queues of the session's catalog, and reports new alerts."""

    def __init__(
        self,
        spark: SparkSession,
        *listeners: Callable[[Alert], object],
        holding: Callable[[Sequence[Alert]], object] = lambda _: None,
    ) -> None:
        """Report to `listeners` each alert when it begins, and to `holding` at each look all that hold."""
        self._spark, self._listeners, self._holding = spark, listeners, holding
        self._told: set[Alert] = set()

    def start(self, stopped: Callable[[float], bool]) -> Thread:
        """Look from now on; see `poll`."""
        return poll("alerts", self.poll, self._spark, ALERTS_POLL, stopped)

    def poll(self) -> None:
        """Report new alerts. Alerts that are over are forgotten; if they return, they are reported again."""
        every = list(listed(self._spark))
        found = readable(every)
        holding = set(alerts(self._spark, found, freshness(self._spark, found), health(self._spark, found), unreadable(every)))
        now = sorted(holding, key=lambda each: (each.name, each.kind, str(each.since)))
        for alert in now:
            if alert not in self._told:
                self._tell(alert)
        self._told = holding
        self._holding(now)

    def _tell(self, alert: Alert) -> None:
        log.warning("%s %s: %s", alert.kind.value, alert.name, alert.text)
        for listener in self._listeners:
            _call(listener, alert)


def _call(listener: Callable[[Alert], object], alert: Alert) -> None:
    try:
        listener(alert)
    except Exception:  # the others are to be told as well
        log.exception("the function that is called with alerts fails")
