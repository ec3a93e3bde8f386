"""Tables in S3: a real server on loopback, Hadoop's connector, and processes that are killed between two commits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.killed import ended, run, start
from tests.spark.s3 import BUCKET, Store, storing

pytestmark = pytest.mark.s3

QUERIES = {
    "joined_groups": """SELECT a.k, a.n, b.hi FROM (SELECT k, count(*) AS n FROM l GROUP BY k) a
        JOIN (SELECT k, max(w) AS hi FROM r GROUP BY k) b ON a.k = b.k""",
    "joined_rows": "SELECT l.v, r.w FROM l JOIN r ON l.k = r.k",
    "above": "SELECT hi, count(*) AS groups FROM joined_groups GROUP BY hi",
}

PREAMBLE = f"""
import json, os, signal, sys, threading
from streamtable import open_queue
from streamtable.errors import ConcurrentRefresh
from streamtable.refresh.failpoints import watch
from tests.oracle.comparison import assert_exact, rows_of

spark = session(2, json.loads(sys.argv[1]))
QUERIES = {QUERIES!r}

def append(n):
    spark.sql(f"INSERT INTO l VALUES (2, {{n}}), ({{30 + n}}, 1)")
    spark.sql(f"INSERT INTO r VALUES (2, {{100 + n}}), ({{30 + n}}, 1)")

def write(n):
    append(n)
    spark.sql(f"DELETE FROM l WHERE v = {{n - 1}}")

def kill(reached):
    if reached == sys.argv[2]:
        os.killpg(0, signal.SIGKILL)

def recovered():
    for name, query in QUERIES.items():
        done = spark.sql(f"REFRESH STREAM TABLE {{name}}").first()
        assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
        assert_exact(spark, name, query)
        assert spark.sql(f"VERIFY STREAM TABLE {{name}}").first()["ok"], name
"""

CREATE = """
assert spark.conf.get("spark.sql.warehouse.dir").startswith("s3a://")
for name, columns in (("l", "k INT, v INT"), ("r", "k INT, w INT")):
    spark.sql(f"CREATE TABLE {name} ({columns}) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, 10), (2, 20), (2, 20), (NULL, 5)")
for name, query in QUERIES.items():
    spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
    assert_exact(spark, name, query)
"""

CASCADE = """
write(1)
done = {row["name"]: row["action"] for row in spark.sql("REFRESH STREAM TABLE above CASCADE").collect()}
assert done == {f"spark_catalog.default.{name}": "DIFFERENTIAL" for name in ("joined_groups", "above")}, done
assert_exact(spark, "above", QUERIES["above"])
assert spark.sql("REFRESH STREAM TABLE above").first()["action"] == "NO_DATA"
"""

QUEUE = """
spark.sql("CREATE QUEUE q (n INT)")
open_queue(spark, "q").register("c", at=0)
spark.sql("INSERT INTO q VALUES (1), (2)")
with open_queue(spark, "q").batch("c") as batch:
    batch.append_to("sink")
with open_queue(spark, "q").batch("c") as batch:
    assert batch is None
assert sorted(row["n"] for row in spark.table("sink").collect()) == [1, 2]
"""

REPLICATION = """
spark.sql(f"CREATE DATABASE here LOCATION 'file:{os.getcwd()}/here'")
for pub, sub in (("default", "here"), ("here", "default")):
    spark.sql(f"CREATE TABLE {pub}.from_{pub} (id INT, n INT) USING delta "
              "TBLPROPERTIES (streamtable.replicaIdentity = 'id', delta.enableChangeDataFeed = true)")
    spark.sql(f"CREATE TABLE {sub}.from_{pub} (id INT, n INT) USING delta")
    spark.sql(f"INSERT INTO {pub}.from_{pub} VALUES (1, 10), (2, 20)")
    spark.sql(f"CREATE PUBLICATION {pub}.of_{pub} FOR TABLE {pub}.from_{pub}")
    spark.sql(f"CREATE SUBSCRIPTION {sub}.to_{sub} CONNECTION 'database={pub}' PUBLICATION of_{pub}")
    spark.sql(f"APPLY SUBSCRIPTION {sub}.to_{sub}").collect()
    spark.sql(f"UPDATE {pub}.from_{pub} SET n = 11 WHERE id = 1")
    spark.sql(f"DELETE FROM {pub}.from_{pub} WHERE id = 2")
    spark.sql(f"APPLY SUBSCRIPTION {sub}.to_{sub}").collect()
    assert rows_of(spark, f"{sub}.from_{pub}") == [(1, 11)], pub
"""

KILL = """
write(int(sys.argv[3]))
watch(kill)
spark.sql("REFRESH STREAM TABLE joined_groups")
"""

DROP = """
spark.sql("ALTER STREAM TABLE above RENAME TO over")
spark.sql("DROP STREAM TABLE over")
for name in ("joined_groups", "joined_rows"):
    spark.sql(f"DROP STREAM TABLE {name}")
storage = spark._jvm.org.apache.hadoop.fs.Path("s3a://tables/")
found = storage.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).listFiles(storage, True)
left = []
while found.hasNext():
    left.append(found.next().getPath().toString())
assert not [each for each in left if "/joined_" in each or "/above" in each or "/over" in each], left
"""

AT_ONCE = """
spark.sql("CREATE TABLE ours (writer INT, n INT) USING delta")
failed = []
def appending(writer):
    try:
        for n in range(8):
            spark.sql(f"INSERT INTO ours VALUES ({writer}, {n})")
    except Exception as error:
        failed.append(error)
threads = [threading.Thread(target=appending, args=(writer,)) for writer in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failed, failed
assert spark.sql("SELECT count(*), count(DISTINCT writer, n) FROM ours").first() == (32, 32)
assert spark.sql("DESCRIBE HISTORY ours").count() == 33
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with storing(tmp_path) as running:
        yield running


def settings(store: Store) -> str:
    return json.dumps(store.settings | {"spark.sql.warehouse.dir": f"s3a://{BUCKET}/warehouse"})


def test_tables_in_s3_are_made_refreshed_followed_killed_and_dropped(store: Store, tmp_path: Path) -> None:
    made = PREAMBLE + CREATE + CASCADE + QUEUE + REPLICATION + AT_ONCE + KILL
    ended(run(tmp_path, made, settings(store), "between the arrangements", "5", patience=600), -9)
    ended(run(tmp_path, f"{PREAMBLE}recovered()\n{KILL}", settings(store), "after the table", "6", patience=600), -9)
    ended(run(tmp_path, f"{PREAMBLE}recovered()\n{DROP}", settings(store), patience=600), 0)


OWNER = f"""
{PREAMBLE}
def refresh():
    done, conflicts = 0, 0
    for name in QUERIES:
        try:
            done += spark.sql(f"REFRESH STREAM TABLE {{name}}").first()["action"] == "DIFFERENTIAL"
        except ConcurrentRefresh:
            conflicts += 1
    return done

def told(text):
    print(text, flush=True)
    return sys.stdin.readline()
"""

FIRST = f"""
{OWNER}
{CREATE}
told("created")
for n in range(1, 6):
    append(n)  # Delta refuses a DELETE beside an append
    refresh()
told("written")
recovered()
for table in ("l", "r"):
    assert spark.sql(f"SELECT count(*) FROM {{table}} WHERE k = 77").first()[0] == 10, table
print("exact")
"""

SECOND = f"""
{OWNER}
for name in ("l", "r", *QUERIES):
    spark.sql(f"CREATE TABLE {{name}} USING delta LOCATION 's3a://{BUCKET}/warehouse/{{name}}'")
for name in QUERIES:
    spark.sql(f"ALTER STREAM TABLE {{name}} ACCEPT DEFINITION")  # its catalog is another one
told("ready")
for n in range(10):
    for table in ("l", "r"):
        spark.sql(f"INSERT INTO {{table}} VALUES (77, {{1000 + n}})")
    if n % 3 == 0:
        refresh()
print("exact")
"""


def test_two_drivers_write_the_same_tables_in_s3(store: Store, tmp_path: Path) -> None:
    """The writers of both append to the sources, and both refresh: no commit overwrites another."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with start(folders[0], FIRST, settings(store)) as first:
        assert first.stdin is not None and first.stdout is not None
        assert first.stdout.readline() == "created\n"
        with start(folders[1], SECOND, settings(store)) as second:
            assert second.stdin is not None and second.stdout is not None
            assert second.stdout.readline() == "ready\n"
            for process in (second, first):
                process.stdin.write("go on\n")  # type: ignore[union-attr]
                process.stdin.flush()  # type: ignore[union-attr]
            assert first.stdout.readline() == "written\n"
            assert second.stdout.read().split() == ["exact"]
        told, _ = first.communicate("go on\n", timeout=600)
    assert told.split() == ["exact"]
