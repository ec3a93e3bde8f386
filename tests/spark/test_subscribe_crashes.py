"""Readers that are killed at random, with the JVM: what they kept is what there is, nothing lost and nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.killed import killed_at_random

READERS = """
import random, sys, threading
from streamtable import open_queue, subscribe

spark = session(2)
last = sys.argv[1] == "last"
if not spark.catalog.tableExists("src"):
    spark.sql("CREATE TABLE src (id INT, v INT) USING delta")
    spark.sql("CREATE TABLE kept (timestamp BIGINT, diff BIGINT, id INT, v INT, progress BIGINT) USING delta")
    spark.sql("CREATE TABLE consumed (timestamp BIGINT, diff BIGINT, id INT, v INT) USING delta")
    spark.sql("CREATE QUEUE q FOR SUBSCRIBE src")
    open_queue(spark, "q").register("c", at=0)
print("started", flush=True)

def write():
    while not last:
        n = random.randrange(10**6)
        spark.sql(random.choice([f"INSERT INTO src VALUES ({n % 9}, {n}), ({n % 9}, {n})", f"UPDATE src SET v = {n} WHERE id = {n % 9}",
                                 f"DELETE FROM src WHERE id = {n % 5}"]))

def keep():
    progress = spark.sql("SELECT max(progress) FROM kept").collect()[0][0]
    begin = {"as_of": 0} if progress is None else {"as_of": progress - 1, "snapshot": False}
    end = int(spark.sql("DESCRIBE HISTORY src LIMIT 1").collect()[0]["version"]) + 1 if last else None
    rows = []
    for row in subscribe(spark, "src", progress=True, up_to=end, **begin):
        if not row.progressed:
            rows.append((row.timestamp, row.diff, row.id, row.v, None))
        elif progress is not None or row.timestamp > 0:
            made = spark.createDataFrame([*rows, (None, None, None, None, row.timestamp)], spark.table("kept").schema)
            made.coalesce(1).write.format("delta").mode("append").saveAsTable("kept")
            rows = []
    if rows:
        spark.createDataFrame(rows, spark.table("kept").schema).write.format("delta").mode("append").saveAsTable("kept")

def consume():
    while True:
        with open_queue(spark, "q").batch("c") as batch:
            if batch is None and last:
                return
            if batch is not None:
                batch.append_to("consumed")

threads = [threading.Thread(target=each) for each in (write, keep, consume)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
net = "SELECT id, v FROM (SELECT id, v, sum(diff) AS n FROM {} WHERE diff IS NOT NULL GROUP BY id, v) LATERAL VIEW explode(sequence(1, CAST(n AS INT))) AS x WHERE n > 0"
for name in ("kept", "consumed"):
    for left, right in ((net.format(name), "SELECT * FROM src"), ("SELECT * FROM src", net.format(name))):
        assert spark.sql(f"{left} EXCEPT ALL {right}").isEmpty(), (name, left)
    assert spark.sql(f"SELECT 1 FROM {name} WHERE diff IS NOT NULL GROUP BY timestamp, id, v HAVING count(*) > 1").isEmpty(), name
print("commits", spark.sql("DESCRIBE HISTORY src").count(), flush=True)
"""


@pytest.mark.fuzz
def test_readers_killed_at_random_lose_nothing_and_keep_nothing_twice(tmp_path: Path) -> None:
    killed_at_random(tmp_path, READERS, seconds=(5, 25))
