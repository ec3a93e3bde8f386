"""From commit to delivered row: SUBSCRIBE against Delta's own change feed stream, in the same run over the same commits.

`./run bench subscribe`; `ROUNDS`, `ROWS=1,100` and `READERS=1,50` choose less. The other side reads the feed by Structured
Streaming and writes it to a Delta table in foreachBatch, as one does without SUBSCRIBE.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from bench.run import session
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import subscribe

ROUNDS = int(os.environ.get("ROUNDS", "20"))
ROWS = [int(each) for each in os.environ.get("ROWS", "1,100,10000").split(",")]
READERS = [int(each) for each in os.environ.get("READERS", "1,10,50").split(",")]
PATIENCE = 60


class Arrivals:
    """When the last row of each commit was there, for each reader."""

    def __init__(self, readers: int) -> None:
        self.readers = readers
        self.times: dict[int, list[float]] = defaultdict(list)
        self.changed = threading.Condition()

    def add(self, version: int) -> None:
        with self.changed:
            self.times[version].append(time.perf_counter())
            self.changed.notify_all()

    def wait(self, version: int) -> list[float]:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.times[version]) == self.readers, PATIENCE), (
                f"version {version} is missing"
            )
            return self.times[version]


def measure(spark: SparkSession, rows: int, arrivals: Arrivals) -> list[float]:
    """Commit again and again; return the milliseconds until each reader had each commit, the first two left out."""
    found = []
    for n in range(ROUNDS + 2):
        spark.sql(f"INSERT INTO t SELECT id, id % 7 FROM range({rows})")
        committed = time.perf_counter()
        there = arrivals.wait(int(spark.sql("DESCRIBE HISTORY t LIMIT 1").collect()[0]["version"]))
        found += [1000 * (each - committed) for each in there] if n >= 2 else []
    return found


def by_subscribe(spark: SparkSession, rows: int, readers: int) -> list[float]:
    """Measure readers of `subscribe`."""
    arrivals = Arrivals(readers)
    subscribers = [subscribe(spark, "t", snapshot=False) for _ in range(readers)]

    def read(number: int) -> None:
        for count, row in enumerate(subscribers[number], 1):
            if count % rows == 0:
                arrivals.add(row.timestamp)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(readers)]
    for thread in threads:
        thread.start()
    try:
        return measure(spark, rows, arrivals)
    finally:
        for each in subscribers:
            each.close()
        for thread in threads:
            thread.join()


def by_change_feed(spark: SparkSession, rows: int, readers: int) -> list[float]:
    """Measure streams of the change feed."""
    arrivals = Arrivals(readers)

    def writing(number: int) -> Callable[[DataFrame, int], None]:
        def write(batch: DataFrame, _: int) -> None:
            versions = [row[0] for row in batch.select("_commit_version").distinct().collect()]
            batch.write.format("delta").mode("append").saveAsTable(f"sink_{number}")
            for version in versions:
                arrivals.add(version)

        return write

    latest = spark.sql("DESCRIBE HISTORY t LIMIT 1").collect()[0]["version"]
    feed = spark.readStream.option("readChangeFeed", "true").option("startingVersion", latest)
    writers = [feed.table("t").writeStream.foreachBatch(writing(n)) for n in range(readers)]
    streams = [each.trigger(processingTime="0 seconds").start() for each in writers]
    try:
        return measure(spark, rows, arrivals)
    finally:
        for stream in streams:
            stream.stop()


def main() -> None:
    spark = session(Path(".bench").absolute())
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(Path("checkpoints").resolve()))
    columns = ("rows", "readers", "SUBSCRIBE median", "p99", "change feed median", "p99", "ratio")
    table = Table(*columns, title="ms from commit to reader")
    spark.sql("CREATE TABLE t (id BIGINT, v BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    for rows in ROWS:
        for readers in READERS:
            ours, theirs = (side(spark, rows, readers) for side in (by_subscribe, by_change_feed))
            ratio = statistics.median(theirs) / statistics.median(ours)
            numbers = (statistics.median(ours), p99(ours), statistics.median(theirs), p99(theirs))
            table.add_row(str(rows), str(readers), *(f"{each:.0f}" for each in numbers), f"{ratio:.1f}")
            Console(width=120).print(table)
    spark.stop()


def p99(times: list[float]) -> float:
    """Return the time that one in a hundred exceeds."""
    return sorted(times)[int(len(times) * 0.99) - 1]


if __name__ == "__main__":
    main()
