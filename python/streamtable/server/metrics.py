"""Metrics for Prometheus: what the table functions say, asked for when somebody looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql import SparkSession

from streamtable.schedule.loop import Scheduler
from streamtable.subscriptions import cursors

__all__ = ["OF_ALL", "OF_EACH_TABLE", "serve"]

# Metric, column of refresh_stats(), help. The history is as long as the log, so that even totals may shrink: they are gauges.
OF_EACH_TABLE = (
    ("streamtable_staleness_seconds", "staleness_seconds", "how long the contents have not been the query's"),
    ("streamtable_refreshes", "total_refreshes", "refreshes in the history"),
    ("streamtable_failed_refreshes", "failed_refreshes", "failures in the history"),
    ("streamtable_consecutive_errors", "consecutive_errors", "failures since the last success"),
    ("streamtable_rows_inserted", "total_rows_inserted", "rows inserted by the refreshes in the history"),
    ("streamtable_rows_deleted", "total_rows_deleted", "rows deleted by the refreshes in the history"),
    ("streamtable_refresh_milliseconds", "avg_duration_ms", "what a refresh takes, on average"),
)
OF_ALL = {
    "streamtable_scheduler_running": "1 while tables are refreshed by schedule",
    "streamtable_tables": "stream tables by status",
    "streamtable_alerts": "alerts by kind",
    "streamtable_cursors": "cursors that clients declared and have not closed",
}


class StreamTableCollector(Collector):
    """The gauges of one server."""

    def __init__(self, spark: SparkSession, scheduler: Scheduler | None) -> None:
        self._spark = spark
        self._scheduler = scheduler

    def collect(self) -> Iterator[Metric]:
        """Ask, and yield the answers."""
        running = self._scheduler is not None and self._scheduler.running
        yield GaugeMetricFamily("streamtable_scheduler_running", OF_ALL["streamtable_scheduler_running"], float(running))
        tables = self._spark.sql("SELECT * FROM refresh_stats()").collect()
        alerts = self._spark.sql("SELECT * FROM alerts()").collect()
        yield _counted("streamtable_tables", "status", [row["status"] for row in tables])
        yield _counted("streamtable_alerts", "alert", [row["alert"] for row in alerts])
        yield GaugeMetricFamily("streamtable_cursors", OF_ALL["streamtable_cursors"], float(cursors.number()))
        for metric, column, text in OF_EACH_TABLE:
            gauge = GaugeMetricFamily(metric, text, labels=["name"])
            for row in tables:
                if row[column] is not None:
                    gauge.add_metric([row["name"]], float(row[column]))
            yield gauge


def serve(spark: SparkSession, scheduler: Scheduler | None, host: str, port: int) -> None:
    """Answer http://host:port/metrics in a thread of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    registry.register(StreamTableCollector(spark, scheduler))
    start_http_server(port, addr=host, registry=registry)


def _counted(metric: str, label: str, values: list[str]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(metric, OF_ALL[metric], labels=[label])
    for value, number in Counter(values).items():
        gauge.add_metric([value], number)
    return gauge
