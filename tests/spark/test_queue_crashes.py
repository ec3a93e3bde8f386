"""Ten consumers of a million events, killed at random with the JVM: nothing lost, order kept, each batch finished once.

And one of a captured table that retries and gives up. `EVENTS`, `COMMITS` and `KILLS` choose less.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.spark.killed import killed_at_random

CONSUMERS = """
import os, sys, threading, time
from datetime import timedelta
from pathlib import Path
from pyspark.sql import functions as F
from streamtable import open_queue

spark = session(2)
commits, last = int(os.environ.get("COMMITS", "125")), sys.argv[1] == "last"
rows = int(os.environ.get("EVENTS", "1000000")) // commits
names = [f"c{n}" for n in range(10)]
if not spark.catalog.tableExists("q"):
    spark.sql(f"CREATE QUEUE q (n BIGINT, event BIGINT) WITH (max_count = {rows * (commits // 8)})")
    for name in names:
        open_queue(spark, "q").register(name, at=0)
        spark.sql(f"CREATE TABLE sink_{name} (batch BIGINT, timestamp BIGINT, n BIGINT, event BIGINT) USING delta")
print("started", flush=True)
written = Path("written")

def write():
    for n in range(int(written.read_text()) + 1 if written.exists() else 1, commits + 1):
        events = spark.range(rows).select(F.lit(n).cast("bigint").alias("n"), F.col("id").alias("event"))
        events.write.format("delta").mode("append").option("txnAppId", "writer").option("txnVersion", n).saveAsTable("q")
        Path("new").write_text(str(n))
        Path("new").rename(written)

def consume(name, worker=None):
    queue = open_queue(spark, "q")
    while True:
        there = written.exists() and int(written.read_text()) == commits
        with queue.batch(name, worker=worker, take_over_after=timedelta(seconds=90)) as batch:
            if batch is not None:
                made = batch.events.select(F.lit(batch.number).alias("batch"), "timestamp", "n", "event")
                batch.append_to(f"sink_{name}", made)
        if batch is None:
            if there and last and not any(each.consumer.in_work for each in queue.consumers() if each.consumer.name == name):
                return
            time.sleep(0.2)

# The last consumer is a pair of workers, who do not come back: what they had is taken over.
workers = [(name,) for name in names[:-1]] + [(names[-1], f"{os.getpid()} {n}") for n in (1, 2)]
failed = []
def guarded(run, *arguments):
    try:
        run(*arguments)
    except Exception as error:
        failed.append(error)
        raise
threads = [threading.Thread(target=guarded, args=each) for each in [(write,), *((consume, *each) for each in workers)]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, "\\n".join(map(str, failed))  # with the stack of Java
for lag in open_queue(spark, "q").consumers():
    consumer, sink = lag.consumer, spark.table(f"sink_{lag.consumer.name}")
    assert lag.pending_events == 0 and not consumer.in_work, lag
    assert sink.count() == sink.select("n", "event").distinct().count() == commits * rows, consumer
    batches = sink.groupBy("batch").agg(F.min("n"), F.max("n"), F.min("timestamp"), F.max("timestamp")).orderBy("batch").collect()
    assert [row[0] for row in batches] == list(range(1, consumer.batches + 1)), (consumer, batches)
    assert all(a[2] < b[1] and a[4] < b[3] for a, b in zip(batches, batches[1:])), batches
open_queue(spark, "q").purge()
assert spark.table("q").isEmpty()
print("finished", flush=True)
"""


PUT_OFF = """
import random, threading
from pyspark.sql import functions as F
from streamtable import open_queue

spark = session(2)
commits = 12
if not spark.catalog.tableExists("sink"):
    spark.sql("CREATE TABLE IF NOT EXISTS t (n BIGINT) USING delta")
    spark.sql("CREATE QUEUE IF NOT EXISTS q ON t WITH (max_count = 40)")
    if not open_queue(spark, "q").consumers():
        open_queue(spark, "q").register("c", at=0)
    spark.sql("CREATE TABLE sink (n BIGINT, retries INT) USING delta")
queue = open_queue(spark, "q")
print("started", flush=True)
failed = []

def write():
    try:
        for n in range(commits):
            rows = spark.range(20 * n, 20 * n + 20).select(F.col("id").alias("n"))
            rows.write.format("delta").mode("append").option("txnAppId", "writer").option("txnVersion", n).saveAsTable("t")
    except Exception as error:
        failed.append(error)
        raise

# What is retried and given up is the same in each attempt, the calls that say so are not.
writer = threading.Thread(target=write)
writer.start()
while True:
    over = not writer.is_alive()
    with queue.batch("c") as batch:
        if batch is not None:
            events = batch.events
            calls = [(batch.retry, events.where(f"n % 3 = 1 AND retries = 0 AND n % 2 = {part}")) for part in (0, 1)]
            calls += [(batch.give_up, events.where(f"n % 5 = 0 AND n % 3 <> 1 AND n % 4 = {part}")) for part in range(4)]
            for call, rows in random.sample(calls, len(calls)):
                call(rows)
            done = events.where("CASE WHEN n % 3 = 1 THEN retries = 1 ELSE n % 5 <> 0 END")
            batch.append_to("sink", done.select("n", "retries"))
    if batch is None and over:
        break
assert not failed, "\\n".join(map(str, failed))  # with the stack of Java
written = sorted(tuple(row) for row in spark.table("sink").collect())
gave_up = sorted(row.n for row in queue.dead_letters("c").collect())
everything = range(20 * commits)
assert written == [(n, int(n % 3 == 1)) for n in everything if n % 3 == 1 or n % 5], written
assert gave_up == [n for n in everything if n % 3 != 1 and n % 5 == 0], gave_up
print("finished", flush=True)
"""


@pytest.mark.fuzz
@pytest.mark.timeout(1800)
def test_what_is_put_off_is_kept_once_by_batches_killed_at_random(tmp_path: Path) -> None:
    killed_at_random(tmp_path, PUT_OFF, seconds=(5, 40), times=int(os.environ.get("KILLS", "4")) // 2, patience=1500)


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_consumers_killed_at_random_lose_nothing_and_finish_each_batch_once(tmp_path: Path) -> None:
    killed_at_random(tmp_path, CONSUMERS, seconds=(5, 60), times=int(os.environ.get("KILLS", "4")), patience=3000)
