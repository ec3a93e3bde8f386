"""Metrics for Prometheus: the results of the table functions at the server's last poll. A scrape asks nobody."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from pyspark.sql import Row, SparkSession

from streamtable.hosts.server.pages import Page
from streamtable.observe.status import Standing
from streamtable.schedule.loop import Scheduler
from streamtable.schedule.poll import poll
from streamtable.settings.session import POLL
from streamtable.subscribing import cursors

__all__ = ["OF_ALL", "OF_EACH_EXPECTATION", "OF_EACH_TABLE", "Metrics", "families"]

# Metric, column of stream_tables() or refresh_stats(), help.
# The history is as long as the log, so that even totals may shrink: they are gauges.
OF_EACH_TABLE = (
    ("streamtable_staleness_seconds", "staleness_seconds", "how long the contents have not been the query's"),
    ("streamtable_last_success_timestamp_seconds", "last_success", "when a refresh last succeeded, in seconds since 1970"),
    ("streamtable_last_attempt_timestamp_seconds", "last_attempt", "when a refresh was last tried, in seconds since 1970"),
    ("streamtable_next_due_timestamp_seconds", "next_due", "when the schedule asks for a refresh, in seconds since 1970"),
    ("streamtable_rows", "row_count", "rows of the table"),
    ("streamtable_size_bytes", "size_bytes", "bytes of the table's files"),
    ("streamtable_refreshes", "total_refreshes", "refreshes in the history"),
    ("streamtable_failed_refreshes", "failed_refreshes", "failures in the history"),
    ("streamtable_consecutive_errors", "consecutive_errors", "failures since the last success"),
    ("streamtable_rows_inserted", "total_rows_inserted", "rows inserted by the refreshes in the history"),
    ("streamtable_rows_deleted", "total_rows_deleted", "rows deleted by the refreshes in the history"),
    ("streamtable_refresh_duration_seconds", "avg_duration_ms", "what a refresh takes, on average"),
)
OF_EACH_EXPECTATION = (
    ("streamtable_expectation_passed_rows", "passed", "rows that meet an expectation, as of the last refresh"),
    ("streamtable_expectation_failed_rows", "failed", "rows that fail an expectation, as of the last refresh"),
)
OF_ALL = {
    "streamtable_scheduler_running": "1 while the server's scheduler runs, also while ALTER SCHEDULER SUSPEND holds",
    "streamtable_cursors": "cursors that clients declared and have not closed",
    "streamtable_tables": "stream tables by status",
    "streamtable_state": "1 for the state that a stream table is in: fresh, stale, failing or suspended",
    "streamtable_info": "1; refresh mode, schedule and last action of a stream table",
    "streamtable_alerts": "alerts by kind",
    "streamtable_metrics_timestamp_seconds": "when the tables were last asked, in seconds since 1970",
}
INFO = ("refresh_mode", "schedule", "last_action")
REST = 4
"""The pause between two polls, as a multiple of the time of the last poll."""


class _Families(Collector):
    """Gauges that are there already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class Metrics(Collector):
    """The gauges of one server, with the results of the last poll.

    Those of the tables are text, which each poll makes once and puts in the place of the last one: a scrape takes as long for ten
    thousand tables as for one.
    """

    def __init__(self) -> None:
        self._registry, self._process = CollectorRegistry(), CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        self._registry.register(self)
        self._running: Callable[[], bool] = bool
        self._of_tables = ""
        self._measure()
        self._answered = self._next = time.monotonic()

    def watch(self, spark: SparkSession, scheduler: Scheduler | None, stopped: Callable[[float], bool]) -> None:
        """Poll the tables from now on, in a thread; see `poll`."""
        if scheduler:
            self._running = lambda: scheduler.running
        self._answered = time.monotonic()
        poll("metrics", lambda: self._look(spark), spark, POLL, stopped)
        poll("metrics of the process", self._measure, spark, POLL, stopped)  # also while the tables do not answer

    def silence(self) -> float:
        """Return the seconds since the tables' last answer."""
        return max(0.0, time.monotonic() - max(self._answered, self._next))

    def page(self) -> Page:
        """Return what is known."""
        return Page(generate_latest(self._registry).decode() + self._of_process + self._of_tables, kind=CONTENT_TYPE_PLAIN_0_0_4)

    def collect(self) -> Iterator[Metric]:
        """Yield what this process knows without asking anybody."""
        yield _gauge("streamtable_scheduler_running", self._running())
        yield _gauge("streamtable_cursors", cursors.number())

    def publish(self, found: Iterable[Metric]) -> None:
        """Tell these gauges of the tables from now on."""
        self._of_tables = generate_latest(_Families(found)).decode()

    def _measure(self) -> None:
        self._of_process = generate_latest(self._process).decode()  # it reads a dozen files

    def _look(self, spark: SparkSession) -> None:
        began = time.monotonic()
        if began < self._next:
            return
        tables = _joined(spark.sql("SELECT * FROM refresh_stats()").collect(), spark.sql("SELECT * FROM stream_tables()").collect())
        alerts = spark.sql("SELECT * FROM alerts()").collect()
        expectations = spark.sql("SELECT * FROM expectations()").collect()
        self.publish(families(tables, [row["alert"] for row in alerts], expectations, time.time()))
        self._answered = time.monotonic()
        self._next = self._answered + REST * (self._answered - began)


def _joined(stats: Iterable[Row], tables: Iterable[Row]) -> Sequence[Mapping[str, Any]]:
    """Return what both functions say of each table, by column. Refreshes of a table that nobody can read are not counted."""
    counted = {row["name"]: row.asDict() for row in stats}
    return [counted.get(row["name"], {}) | row.asDict() for row in tables]


def families(
    tables: Sequence[Mapping[str, Any]], alerts: Iterable[str], expectations: Iterable[Row], now: float
) -> Iterator[Metric]:
    """Yield the gauges of the tables, alerts and expectations at the moment `now`."""
    yield _gauge("streamtable_metrics_timestamp_seconds", now)
    yield _counted("streamtable_tables", "status", (row["status"] for row in tables))
    yield _counted("streamtable_alerts", "alert", alerts)
    states = GaugeMetricFamily("streamtable_state", OF_ALL["streamtable_state"], labels=["name", "state"])
    info = GaugeMetricFamily("streamtable_info", OF_ALL["streamtable_info"], labels=["name", *INFO])
    for row in tables:
        info.add_metric([row["name"], *(str(row[label] or "") for label in INFO)], 1)
        for state in Standing:
            states.add_metric([row["name"], state.value], row["state"] == state.value)
    yield from (states, info)
    for metric, column, text in OF_EACH_TABLE:
        gauge = GaugeMetricFamily(metric, text, labels=["name"])
        for row in tables:
            if row.get(column) is not None:
                gauge.add_metric([row["name"]], _in_base_units(column, row[column]))
        yield gauge
    for metric, column, text in OF_EACH_EXPECTATION:
        gauge = GaugeMetricFamily(metric, text, labels=["name", "expectation"])
        for each in expectations:
            if each[column] is not None:
                gauge.add_metric([each["name"], each["expectation"]], float(each[column]))
        yield gauge


def _in_base_units(column: str, value: float | datetime) -> float:
    if isinstance(value, datetime):
        return value.timestamp()
    return value / 1000 if column.endswith("_ms") else float(value)


def _gauge(metric: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(metric, OF_ALL[metric], float(value))


def _counted(metric: str, label: str, values: Iterable[str]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(metric, OF_ALL[metric], labels=[label])
    for value, number in Counter(values).items():
        gauge.add_metric([value], number)
    return gauge
