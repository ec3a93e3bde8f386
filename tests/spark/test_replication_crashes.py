"""A subscriber that is killed at random, with the JVM, while tables change: it ends equal to them, nothing came twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.killed import killed_at_random

SUBSCRIBER = """
import random, sys, threading

spark = session(2)
last = sys.argv[1] == "last"
if not spark.catalog.databaseExists("pub"):
    spark.sql("CREATE DATABASE pub")
    for name, identity in (("keyed", "id"), ("whole", "FULL"), ("log", "NOTHING")):
        properties = f"TBLPROPERTIES (streamtable.replicaIdentity = '{identity}', delta.enableDeletionVectors = true)"
        for table in (f"pub.{name}", name):
            spark.sql(f"CREATE TABLE {table} (id INT, v INT) USING delta {properties}")
        spark.sql(f"INSERT INTO pub.{name} SELECT id, 0 FROM range(20)")
    spark.sql("CREATE PUBLICATION pub.p FOR TABLE pub.keyed, pub.whole, pub.log")
    spark.sql("CREATE SUBSCRIPTION s CONNECTION 'database=pub' PUBLICATION p")
print("started", flush=True)

def write():
    while not last:
        n = random.randrange(10**6)
        spark.sql(f"INSERT INTO pub.log VALUES ({n}, 0)")
        for name in ("keyed", "whole"):
            spark.sql(random.choice([
                f"MERGE INTO pub.{name} t USING (SELECT {n % 40} AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, {n})",
                f"UPDATE pub.{name} SET v = {n} WHERE id % 7 = {n % 7}", f"DELETE FROM pub.{name} WHERE id = {n % 40}"]))

def apply():
    for _ in range(2 if last else 10**6):
        spark.sql("APPLY SUBSCRIPTION s")

threads = [threading.Thread(target=each) for each in (write, apply)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for name in ("keyed", "whole", "log"):
    for left, right in ((f"pub.{name}", name), (name, f"pub.{name}")):
        assert spark.sql(f"SELECT * FROM {left} EXCEPT ALL SELECT * FROM {right}").isEmpty(), (name, left)
(errors, missing), = spark.sql("SELECT sum(apply_errors + sync_errors), sum(update_missing + delete_missing) FROM subscription_stats()").collect()
assert (errors, missing) == (0, 0), (errors, missing)
print("commits", spark.sql("DESCRIBE HISTORY pub.log").count(), flush=True)
"""


@pytest.mark.fuzz
def test_a_subscriber_killed_at_random_loses_nothing_and_applies_nothing_twice(tmp_path: Path) -> None:
    killed_at_random(tmp_path, SUBSCRIBER, seconds=(8, 30))
