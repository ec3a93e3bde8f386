"""The apply worker of a scheduler: enabled subscriptions follow their publishers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Thread

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.kinds import SUBSCRIPTION
from streamtable.errors import clear_frames
from streamtable.language.names import Name
from streamtable.replication import run
from streamtable.replication.subscriptions import Subscription
from streamtable.schedule.poll import poll
from streamtable.settings.session import REPLICATION_POLL

__all__ = ["ApplyWorker"]

log = logging.getLogger("streamtable.replication")

_LIST_EVERY = 60.0
"""Seconds between two searches for new subscriptions, because listing a catalog takes long."""


class ApplyWorker:
    """Applies the subscriptions of the session's catalog one after another."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._names: list[Name] = []
        self._listed_at: float | None = None

    def start(self, stopped: Callable[[float], bool]) -> Thread:
        """Apply from now on; see `poll`."""
        return poll("apply worker", self.poll, self._spark, REPLICATION_POLL, stopped)

    def poll(self) -> None:
        """Apply the commits since the last time. Failures are logged, and tried again the next time."""
        if self._listed_at is None or time.monotonic() - self._listed_at > _LIST_EVERY:
            self._names = [Name(each.name) for each in objects.every(self._spark, SUBSCRIPTION)]
            self._listed_at = time.monotonic()
        for name in self._names:
            self._apply(name)

    def _apply(self, name: Name) -> None:
        try:
            stored = objects.find(self._spark, SUBSCRIPTION, name)
            if stored and Subscription.of(stored).enabled:
                run.apply(self._spark, name)
        except Exception as error:  # the others are to be applied as well
            log.warning("the subscription %s cannot go on: %s", name, error)
            clear_frames(error)
