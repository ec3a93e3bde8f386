"""From commit to delivered row, and rows per second: SUBSCRIBE against Delta's own change feed stream, over equal commits.

`./run bench subscribe`; `ROUNDS`, `ROWS=1,100` and `READERS=1,50` choose less. The other side reads the feed by Structured
Streaming and writes it to a Delta table in foreachBatch, as one does without SUBSCRIBE. A commit is timed when all have the one
before; rows per second are those that each reader has of `ROUNDS` commits that follow each other without a pause.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from bench.feed import Arrivals, Feed, append_to, latest
from bench.run import p99, session
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import subscribe
from streamtable.subscribing.subscriber import Subscriber

ROUNDS = int(os.environ.get("ROUNDS", "20"))
ROWS = [int(each) for each in os.environ.get("ROWS", "1,100,10000").split(",")]
READERS = [int(each) for each in os.environ.get("READERS", "1,10,50").split(",")]


def measure(spark: SparkSession, rows: int, readers: list[Arrivals]) -> tuple[list[float], float]:
    """Return the milliseconds until each reader had each commit, the first two left out, and sustained rows per second."""
    commit = f"INSERT INTO t SELECT id, id % 7 FROM range({rows})"
    found = []
    for n in range(ROUNDS + 2):
        spark.sql(commit)
        committed, version = time.perf_counter(), latest(spark, "t")
        there = [each.wait(version) for each in readers]
        found += [1000 * (each - committed) for each in there] if n >= 2 else []
    started = time.perf_counter()
    for _ in range(ROUNDS):
        spark.sql(commit)
    version = latest(spark, "t")
    return found, rows * ROUNDS / (max(each.wait(version) for each in readers) - started)


def by_subscribe(spark: SparkSession, rows: int, readers: int) -> tuple[list[float], float]:
    """Measure readers of `subscribe`."""
    subscribers = {subscribe(spark, "t", snapshot=False): Arrivals() for _ in range(readers)}

    def read(subscriber: Subscriber) -> None:
        for count, row in enumerate(subscriber, 1):
            if count % rows == 0:
                subscribers[subscriber].add(row.timestamp)

    threads = [threading.Thread(target=read, args=(each,)) for each in subscribers]
    for thread in threads:
        thread.start()
    try:
        return measure(spark, rows, list(subscribers.values()))
    finally:
        for each in subscribers:
            each.close()
        for thread in threads:
            thread.join()


def by_change_feed(spark: SparkSession, rows: int, readers: int) -> tuple[list[float], float]:
    """Measure streams of the change feed."""
    start, run = latest(spark, "t"), f"{rows}_{readers}"
    feeds = [Feed(spark, "t", f"{run}_{n}", append_to(f"sink_{run}_{n}"), start) for n in range(readers)]
    with ExitStack() as streams:
        return measure(spark, rows, [streams.enter_context(each.following()) for each in feeds])


def main() -> None:
    spark = session(Path(".bench").absolute())
    columns = ("rows", "readers", "side", "median ms", "p99", "rows / s", "ratio ms", "ratio rows / s")
    table = Table(*columns, title=f"from commit to reader, {ROUNDS} commits")
    spark.sql("CREATE TABLE t (id BIGINT, v BIGINT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    for rows in ROWS:
        for readers in READERS:
            sides = {"change feed": by_change_feed, "SUBSCRIBE": by_subscribe}
            found = {name: side(spark, rows, readers) for name, side in sides.items()}
            feed, feed_rate = statistics.median(found["change feed"][0]), found["change feed"][1]
            for side, (times, rate) in found.items():
                numbers = (f"{statistics.median(times):,.0f}", f"{p99(times):,.0f}", f"{rate:,.0f}")
                ratios = (f"{feed / statistics.median(times):.2f}", f"{rate / feed_rate:.2f}")
                table.add_row(str(rows), str(readers), side, *numbers, *ratios)
            Console(width=120).print(table)
    spark.stop()


if __name__ == "__main__":
    main()
