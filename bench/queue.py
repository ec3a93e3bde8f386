"""Events per second into change queues and out of them, against Delta's own change feed stream, over the same commits.

`./run bench queue`; `ROUNDS`, `COMMITS` and `ROWS=100,10000` choose less. Each side appends what it reads to a Delta table: queues
by `append_to`, exactly once; the other side reads the feed by Structured Streaming and writes in foreachBatch, as one does without
them. "backlog" is all commits at once, "one by one" each as soon as it is there.
"""

from __future__ import annotations

import itertools
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

from streamtable import open_queue
from streamtable.queue.reader import ChangeQueue

ROUNDS = int(os.environ.get("ROUNDS", "3"))
COMMITS = int(os.environ.get("COMMITS", "20"))
ROWS = [int(each) for each in os.environ.get("ROWS", "100,10000").split(",")]
SIDES = ("change feed", "queue of its own", "queue ON table", "queue ON table KEY")
PATIENCE = 120


class Stream:
    """The change feed of a table, written to `sink_0`."""

    def __init__(self, spark: SparkSession) -> None:
        self._seen, self._changed = 0, threading.Condition()
        feed = spark.readStream.option("readChangeFeed", "true").option("startingVersion", 0).table("events_0")
        self._query = feed.writeStream.foreachBatch(self._write).trigger(processingTime="0 seconds").start()

    def _write(self, batch: DataFrame, _: int) -> None:
        batch.write.format("delta").mode("append").saveAsTable("sink_0")
        version = batch.agg({"_commit_version": "max"}).collect()[0][0]
        with self._changed:
            self._seen = max(self._seen, version or 0)
            self._changed.notify_all()

    def catch_up(self, version: int) -> None:
        """Return when everything up to a version is in the sink."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._seen >= version, PATIENCE), f"version {version} is missing"

    def stop(self) -> None:
        self._query.stop()


def readers(spark: SparkSession) -> list[Callable[[int], None]]:
    """Make the tables, queues and the stream; each reader returns when everything up to a version is in its sink."""
    columns = "id BIGINT, v BIGINT, text STRING"
    for n in (0, 2, 3):
        spark.sql(f"CREATE TABLE events_{n} ({columns}) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(f"CREATE QUEUE events_1 ({columns})")
    spark.sql("CREATE QUEUE queue_2 ON events_2")
    spark.sql("CREATE QUEUE queue_3 ON events_3 KEY (id, v)")
    found: list[Callable[[int], None]] = [Stream(spark).catch_up]
    for n, name in ((1, "events_1"), (2, "queue_2"), (3, "queue_3")):
        queue = open_queue(spark, name)
        queue.register("bench")

        found.append(reader(queue, f"sink_{n}"))
    return found


def reader(queue: ChangeQueue, sink: str) -> Callable[[int], None]:
    """Return what reads a batch of a queue: all that is there."""

    def read(_: int) -> None:
        with queue.batch("bench") as batch:
            assert batch is not None
            batch.append_to(sink)

    return read


def write(spark: SparkSession, side: int, rows: int) -> float:
    """Commit once; return the seconds that it took."""
    begun = time.perf_counter()
    spark.sql(f"INSERT INTO events_{side} SELECT id, id % 7, concat('event ', id) FROM range({rows})")
    return time.perf_counter() - begun


def main() -> None:
    spark = session(Path(".bench").absolute())
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(Path("checkpoints").resolve()))
    reading, versions = readers(spark), [0] * len(SIDES)
    table = Table("rows", "side", "in", "backlog", "one by one", "ratio in", "backlog", "one by one", title="events per second")
    for rows in ROWS:
        taken: dict[tuple[int, str], list[float]] = defaultdict(list)
        for turn, (side, read) in itertools.product(range(ROUNDS + 1), enumerate(reading)):
            for what, times, commits in (("backlog", 1, COMMITS), ("one by one", COMMITS, 1)):
                writing = out = 0.0
                for _ in range(times):
                    writing += sum(write(spark, side, rows) for _ in range(commits))
                    versions[side] += commits
                    begun = time.perf_counter()
                    read(versions[side])
                    out += time.perf_counter() - begun
                if turn:  # the first is to warm up
                    taken[side, what].append(out)
                    taken[side, "in"].append(writing)
        rate = {key: COMMITS * rows / statistics.median(times) for key, times in taken.items()}
        for side, name in enumerate(SIDES):
            told = ("in", "backlog", "one by one")
            ratios = [f"{rate[side, what] / rate[0, what]:.2f}" for what in told]
            table.add_row(str(rows), name, *(f"{rate[side, what]:,.0f}" for what in told), *ratios)
        Console(width=120).print(table)
    expected = sum(ROWS) * (ROUNDS + 1) * 2 * COMMITS
    assert [spark.table(f"sink_{side}").count() for side in range(len(SIDES))] == [expected] * len(SIDES), "events are missing"
    spark.stop()


if __name__ == "__main__":
    main()
