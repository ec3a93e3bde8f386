"""Rows per second and lag of a subscription while a writer commits every 200 ms, against Delta's own change feed stream.

`./run bench replication`; `COMMITS`, `ROWS=100,10000` and `EVERY` (milliseconds) choose otherwise. Each side follows a table of
its own with the same commits: the subscription by APPLY SUBSCRIPTION in a loop, as a scheduler's apply worker does without its
pause; the other side by foreachBatch, which appends, or merges by the key, as one does without replication. In the end all tables
are equal.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.by_hand import upsert
from bench.feed import Arrivals, Feed, append_to, latest
from bench.run import p99, session
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

COMMITS = int(os.environ.get("COMMITS", "50"))
ROWS = [int(each) for each in os.environ.get("ROWS", "100,10000").split(",")]
EVERY = float(os.environ.get("EVERY", "200"))
SIDES = ("change feed", "subscription")
IDENTITIES = {"inserts": "NOTHING", "inserts and updates by key": "id"}
"""Of the tables of each workload."""


class Subscribed:
    """A subscription of `bench`, applied again and again."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark, self._name, self._ended = spark, name, threading.Event()
        self.arrivals = Arrivals()

    def _work(self) -> None:
        while not self._ended.is_set():
            for row in self._spark.sql(f"APPLY SUBSCRIPTION {self._name}").collect():
                self.arrivals.add(row["position"])

    @contextmanager
    def following(self) -> Iterator[Arrivals]:
        """Apply what comes."""
        worker = threading.Thread(target=self._work)
        worker.start()
        try:
            yield self.arrivals
        finally:
            self._ended.set()
            worker.join()


def appending(sink: str) -> Callable[[DataFrame, int], None]:
    """Return what appends the table's columns of each batch, without those of the feed."""
    append = append_to(sink)
    return lambda batch, number: append(batch.select("id", "v", "text"), number)


def merging(sink: str) -> Callable[[DataFrame, int], None]:
    """Return what merges each batch into a Delta table."""

    def write(batch: DataFrame, _: int) -> None:
        batch.createOrReplaceTempView("batch")
        batch.sparkSession.sql(upsert(sink, "batch"))

    return write


def sides(spark: SparkSession, rows: int, workload: str) -> dict[str, Feed | Subscribed]:
    """Make for each side the table that it follows, and its follower, by the name of that table."""
    identity, run = IDENTITIES[workload], f"{workload.rsplit(maxsplit=1)[-1]}_{rows}"
    sent = f"delta.enableChangeDataFeed = true, streamtable.replicaIdentity = '{identity}'"
    for schema, features in (("default", sent), ("copies", "delta.enableDeletionVectors = true")):
        for side in ("fed", "sent"):
            columns = "id BIGINT, v BIGINT, text STRING"
            spark.sql(f"CREATE TABLE {schema}.{side}_{run} ({columns}) USING delta TBLPROPERTIES ({features})")
    publish = "insert" if identity == "NOTHING" else "insert, update, delete"
    spark.sql(f"CREATE PUBLICATION pub_{run} FOR TABLE sent_{run} WITH (publish = '{publish}')")
    spark.sql(f"CREATE SUBSCRIPTION copies.sub_{run} CONNECTION 'database=default' PUBLICATION pub_{run} WITH (copy_data = false)")
    into = appending if identity == "NOTHING" else merging
    feed = Feed(spark, f"fed_{run}", run, into(f"copies.fed_{run}"))
    return {f"fed_{run}": feed, f"sent_{run}": Subscribed(spark, f"copies.sub_{run}")}


def write(spark: SparkSession, table: str, rows: int, n: int, updating: bool) -> None:
    """Commit the n-th time: new rows, or every fourth time an update of those before."""
    if updating and n % 4 == 3:
        spark.sql(f"UPDATE {table} SET v = v + 1 WHERE id >= {rows * (n - 1)}")
    else:
        spark.sql(f"INSERT INTO {table} SELECT id + {rows * n}, id % 7, concat('row ', id) FROM range({rows})")


def measure(spark: SparkSession, table: str, follower: Feed | Subscribed, rows: int, updating: bool) -> tuple[float, list[float]]:
    """Return rows per second from the first commit to the last arrival, and the lag of each commit in milliseconds."""
    with follower.following() as arrivals:
        for n in (0, 1):  # to warm up
            write(spark, table, rows, n, updating)
        arrivals.wait(latest(spark, table))
        started, first, committed = time.perf_counter(), latest(spark, table) + 1, list[float]()
        for n in range(2, COMMITS + 2):
            time.sleep(max(0.0, started + EVERY / 1000 * (n - 2) - time.perf_counter()))
            write(spark, table, rows, n, updating)
            committed.append(time.perf_counter())
        there = [arrivals.wait(first + n) for n in range(COMMITS)]
    lags = [1000 * max(0.0, at - when) for at, when in zip(there, committed, strict=True)]
    return rows * COMMITS / (there[-1] - started), lags


def main() -> None:
    spark = session(Path(".bench").absolute())
    spark.sql("CREATE DATABASE copies")
    columns = ("workload", "rows", "side", "rows / s", "lag median ms", "p99", "ratio rows / s", "ratio lag")
    table = Table(*columns, title=f"{COMMITS} commits, one every {EVERY:.0f} ms at most")
    for workload, identity in IDENTITIES.items():
        for rows in ROWS:
            followers = sides(spark, rows, workload)
            found = [measure(spark, name, each, rows, updating=identity != "NOTHING") for name, each in followers.items()]
            rate, lag = found[0][0], statistics.median(found[0][1])
            for side, (its_rate, lags) in zip(SIDES, found, strict=True):
                its_lag = statistics.median(lags)
                numbers = (
                    f"{its_rate:,.0f}",
                    f"{its_lag:,.0f}",
                    f"{p99(lags):,.0f}",
                    f"{its_rate / rate:.2f}",
                    f"{lag / its_lag:.2f}",
                )
                table.add_row(workload, str(rows), side, *numbers)
            Console(width=140).print(table)
            for name in followers:
                surplus = spark.sql(f"SELECT * FROM {name} EXCEPT ALL SELECT * FROM copies.{name}").count()
                assert surplus == 0 == spark.table(name).count() - spark.table(f"copies.{name}").count(), f"{name} is not equal"
    spark.stop()


if __name__ == "__main__":
    main()
