"""Metrics for Prometheus, gathered when they are asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql import SparkSession

from streamtable.api.tables import StreamTables
from streamtable.schedule.loop import Scheduler

__all__ = ["serve"]


class StreamTableCollector(Collector):
    """What SHOW STREAM TABLES says, as numbers."""

    def __init__(self, spark: SparkSession, scheduler: Scheduler | None) -> None:
        self._tables = StreamTables(spark)
        self._scheduler = scheduler

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        running = self._scheduler is not None and self._scheduler.running
        yield GaugeMetricFamily("streamtable_scheduler_running", "1 while tables are refreshed by schedule", float(running))
        found = self._tables.list_all()
        tables = GaugeMetricFamily("streamtable_tables", "stream tables by status", labels=["status"])
        for status, number in Counter(each.status for each in found).items():
            tables.add_metric([status], number)
        yield tables
        versions = GaugeMetricFamily("streamtable_table_version", "latest version of the Delta table", labels=["name", "status"])
        for each in found:
            versions.add_metric([each.name, each.status], each.version)
        yield versions


def serve(spark: SparkSession, scheduler: Scheduler | None, host: str, port: int) -> None:
    """Answer http://host:port/metrics in a thread of this process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    # After registering: that would ask for all metrics at once.
    registry.register(StreamTableCollector(spark, scheduler))
    start_http_server(port, addr=host, registry=registry)
