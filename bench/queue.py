"""Events per second into change queues and out of them, against Delta's own change feed stream, over the same commits.

`./run bench queue`; `ROUNDS`, `COMMITS` and `ROWS=100,10000` choose less. Each side appends what it reads to a Delta table: queues
by `append_to`, exactly once; the other side reads the feed by Structured Streaming and writes in foreachBatch, as one does without
them. "backlog" is all commits at once, "one by one" each as soon as it is there.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.feed import Feed, append_to, latest
from bench.run import milliseconds, session
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import open_queue

ROUNDS = int(os.environ.get("ROUNDS", "3"))
COMMITS = int(os.environ.get("COMMITS", "20"))
ROWS = [int(each) for each in os.environ.get("ROWS", "100,10000").split(",")]
SIDES = ("change feed", "queue of its own", "queue ON table", "queue ON table KEY")


class Consumer:
    """A consumer of a queue that writes to a sink."""

    def __init__(self, spark: SparkSession, name: str, sink: str) -> None:
        self._queue, self._sink = open_queue(spark, name), sink
        self._queue.register("bench")

    def backlog(self) -> None:
        """Read all that is there."""
        with self._queue.batch("bench") as batch:
            assert batch is not None
            batch.append_to(self._sink)

    @contextmanager
    def following(self) -> Iterator[Consumer]:
        """Read what is asked for."""
        yield self

    def wait(self, version: int) -> None:
        """Read the next batch."""
        self.backlog()


def sides(spark: SparkSession) -> list[Feed | Consumer]:
    """Make the tables and queues, and what reads them."""
    columns = "id BIGINT, v BIGINT, text STRING"
    for n in (0, 2, 3):
        spark.sql(f"CREATE TABLE events_{n} ({columns}) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(f"CREATE QUEUE events_1 ({columns})")
    spark.sql("CREATE QUEUE queue_2 ON events_2")
    spark.sql("CREATE QUEUE queue_3 ON events_3 KEY (id, v)")
    names = {1: "events_1", 2: "queue_2", 3: "queue_3"}
    return [
        Feed(spark, "events_0", "feed", append_to("sink_0")),
        *(Consumer(spark, name, f"sink_{n}") for n, name in names.items()),
    ]


def write(spark: SparkSession, side: int, rows: int) -> float:
    """Commit once; return the milliseconds that it took."""
    return milliseconds(lambda: spark.sql(f"INSERT INTO events_{side} SELECT id, id % 7, concat('event ', id) FROM range({rows})"))


def measure(spark: SparkSession, side: int, reader: Feed | Consumer, rows: int) -> dict[str, float]:
    """Return the milliseconds for all commits: in, out at once, out one by one."""
    taken = {
        "in": sum(write(spark, side, rows) for _ in range(COMMITS)),
        "backlog": milliseconds(reader.backlog),
        "one by one": 0.0,
    }
    version = latest(spark, f"events_{side}")
    with reader.following() as reading:
        for n in range(COMMITS + 1):
            write(spark, side, rows)
            # From the commit on: what would be asked here would be time that the stream has and a consumer has not.
            passed = milliseconds(partial(reading.wait, version + n + 1))
            taken["one by one"] += passed if n else 0  # the stream starts meanwhile
    return taken


def main() -> None:
    spark = session(Path(".bench").absolute())
    columns = ("rows", "side", "in", "backlog", "one by one", "ratio in", "backlog", "one by one")
    table, reading = Table(*columns, title="events per second"), sides(spark)
    for rows in ROWS:
        taken = [list[dict[str, float]]() for _ in reading]
        for turn, (side, reader) in itertools.product(range(ROUNDS + 1), enumerate(reading)):
            found = measure(spark, side, reader, rows)
            taken[side] += [found] if turn else []  # the first is to warm up
        rates = [
            {what: 1000 * COMMITS * rows / statistics.median(each[what] for each in of_one) for what in of_one[0]}
            for of_one in taken
        ]
        for name, rate in zip(SIDES, rates, strict=True):
            ratios = (f"{rate[what] / rates[0][what]:.2f}" for what in rate)
            table.add_row(str(rows), name, *(f"{each:,.0f}" for each in rate.values()), *ratios)
        Console(width=120).print(table)
    expected = sum(ROWS) * (ROUNDS + 1) * (2 * COMMITS + 1)
    assert [spark.table(f"sink_{side}").count() for side in range(len(SIDES))] == [expected] * len(SIDES), "events are missing"
    spark.stop()


if __name__ == "__main__":
    main()
