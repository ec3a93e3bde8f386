"""Metrics for Prometheus: the results of the table functions at the server's last poll. A scrape runs no query."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from pyspark.sql import Row, SparkSession

from streamtable.hosts.server.pages import Page
from streamtable.schedule.loop import Scheduler
from streamtable.schedule.poll import poll
from streamtable.settings.session import POLL
from streamtable.subscribing import cursors

__all__ = ["OF_ALL", "OF_EACH_TABLE", "Metrics", "families"]

# Metric, column of refresh_stats(), help. The history is as long as the log, so that even totals may shrink: they are gauges.
OF_EACH_TABLE = (
    ("streamtable_staleness_seconds", "staleness_seconds", "how long the contents have not been the query's"),
    ("streamtable_refreshes", "total_refreshes", "refreshes in the history"),
    ("streamtable_failed_refreshes", "failed_refreshes", "failures in the history"),
    ("streamtable_consecutive_errors", "consecutive_errors", "failures since the last success"),
    ("streamtable_rows_inserted", "total_rows_inserted", "rows inserted by the refreshes in the history"),
    ("streamtable_rows_deleted", "total_rows_deleted", "rows deleted by the refreshes in the history"),
    ("streamtable_refresh_duration_seconds", "avg_duration_ms", "what a refresh takes, on average"),
)
OF_ALL = {
    "streamtable_scheduler_running": "1 while tables are refreshed by schedule",
    "streamtable_cursors": "cursors that clients declared and have not closed",
    "streamtable_tables": "stream tables by status",
    "streamtable_alerts": "alerts by kind",
    "streamtable_metrics_timestamp_seconds": "when the tables were last asked, in seconds since 1970",
}
REST = 4
"""The pause between two polls, as a multiple of the time of the last poll."""


class Metrics(Collector):
    """The gauges of one server, with the results of the last poll."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._registry.register(self)
        self._running: Callable[[], bool] = bool
        self._said: tuple[Metric, ...] = ()
        self._answered = self._next = time.monotonic()

    def watch(self, spark: SparkSession, scheduler: Scheduler | None, stopped: Callable[[float], bool]) -> None:
        """Poll the tables from now on, in a thread; see `poll`."""
        if scheduler:
            self._running = lambda: scheduler.running
        self._answered = time.monotonic()
        poll("metrics", lambda: self._look(spark), spark, POLL, stopped)

    def silence(self) -> float:
        """Return the seconds since the tables' last answer."""
        return max(0.0, time.monotonic() - max(self._answered, self._next))

    def page(self) -> Page:
        """Return what is known."""
        return Page(generate_latest(self._registry).decode(), kind=CONTENT_TYPE_PLAIN_0_0_4)

    def collect(self) -> Iterator[Metric]:
        """Yield what is known."""
        yield _gauge("streamtable_scheduler_running", self._running())
        yield _gauge("streamtable_cursors", cursors.number())
        yield from self._said

    def _look(self, spark: SparkSession) -> None:
        began = time.monotonic()
        if began < self._next:
            return
        tables = spark.sql("SELECT * FROM refresh_stats()").collect()
        alerts = spark.sql("SELECT * FROM alerts()").collect()
        self._said = tuple(families(tables, [row["alert"] for row in alerts], time.time()))
        self._answered = time.monotonic()
        self._next = self._answered + REST * (self._answered - began)


def families(tables: list[Row], alerts: Iterable[str], now: float) -> Iterator[Metric]:
    """Yield the gauges of the tables and alerts at the moment `now`."""
    yield _gauge("streamtable_metrics_timestamp_seconds", now)
    yield _counted("streamtable_tables", "status", (row["status"] for row in tables))
    yield _counted("streamtable_alerts", "alert", alerts)
    for metric, column, text in OF_EACH_TABLE:
        unit = 0.001 if column.endswith("_ms") else 1.0  # Prometheus counts in seconds
        gauge = GaugeMetricFamily(metric, text, labels=["name"])
        for row in tables:
            if row[column] is not None:
                gauge.add_metric([row["name"]], float(row[column]) * unit)
        yield gauge


def _gauge(metric: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric, OF_ALL[metric], float(value))


def _counted(metric: str, label: str, values: Iterable[str]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(metric, OF_ALL[metric], labels=[label])
    for value, number in Counter(values).items():
        gauge.add_metric([value], number)
    return gauge
