"""Two drivers, each with a catalog of its own, refresh the same tables at once: no change is lost, none comes twice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.spark.killed import start
from tests.spark.test_crashes import CREATE, QUERIES

REFRESH = f"""
import sys
from pathlib import Path
from streamtable.errors import ConcurrentRefresh
from tests.oracle.comparison import assert_exact

spark = session(1)
QUERIES = {QUERIES!r}
done, conflicts = [], 0

def refresh():
    global conflicts
    for name in QUERIES:
        try:
            done.append(spark.sql(f"REFRESH STREAM TABLE {{name}}").first()["action"])
        except ConcurrentRefresh:
            conflicts += 1

def told(text):
    print(text, flush=True)
    return sys.stdin.readline()
"""

OWNER = f"""
{REFRESH}
{CREATE}
told("created")
for n in range(1, 5):
    spark.sql(f"INSERT INTO l VALUES (2, {{n}}), ({{30 + n}}, 1)")
    spark.sql(f"INSERT INTO r VALUES (2, {{100 + n}}), ({{30 + n}}, 1)")
    spark.sql(f"DELETE FROM l WHERE v = {{n - 1}}")
    refresh()
told("written")
for name, query in QUERIES.items():
    assert spark.sql(f"REFRESH STREAM TABLE {{name}}").first()["action"] == "NO_DATA", name
    assert_exact(spark, name, query)
    assert spark.sql(f"VERIFY STREAM TABLE {{name}}").first()["ok"], name
assert set(done) <= {{"DIFFERENTIAL", "NO_DATA"}}, done
print("exact", done.count("DIFFERENTIAL"), conflicts)
"""

OTHER = f"""
{REFRESH}
for name in ("l", "r", *QUERIES):
    spark.sql(f"CREATE TABLE {{name}} USING delta LOCATION '{{sys.argv[1]}}/{{name}}'")
print("ready", flush=True)
while not Path("written").exists():
    refresh()
refresh()
assert set(done) <= {{"DIFFERENTIAL", "NO_DATA"}}, done
print("exact", done.count("DIFFERENTIAL"), conflicts)
"""


SCHEDULED = f"""
import sys, time
from streamtable import start_scheduler
from tests.oracle.comparison import assert_exact

spark = session(1, {{"spark.streamtable.scheduler.pollSeconds": "0.2"}})
QUERIES = {QUERIES!r}

def write(n):
    spark.sql(f"INSERT INTO l VALUES (2, {{n}}), ({{30 + n}}, 1)")
    spark.sql(f"INSERT INTO r VALUES (2, {{100 + n}}), ({{30 + n}}, 1)")

def all_current():
    until = time.monotonic() + 240
    while spark.sql("SELECT 1 FROM source_health() WHERE versions_behind > 0").head():
        assert time.monotonic() < until, spark.sql("SELECT * FROM source_health()").collect()
        time.sleep(0.5)
"""

FIRST_SCHEDULER = f"""
{SCHEDULED}
{CREATE}
for name in QUERIES:
    spark.sql(f"ALTER STREAM TABLE {{name}} SET SCHEDULE '1s'")
start_scheduler(spark)
print("created", flush=True)
for n in range(1, 1000):
    write(n)
    if n == 4:
        print("written", flush=True)
"""

SECOND_SCHEDULER = f"""
{SCHEDULED}
for name in ("l", "r", *QUERIES):
    spark.sql(f"CREATE TABLE {{name}} USING delta LOCATION '{{sys.argv[1]}}/{{name}}'")
with start_scheduler(spark):
    print("ready", flush=True)
    sys.stdin.readline()
    all_current()
    before = {{name: spark.sql(f"DESCRIBE HISTORY {{name}} LIMIT 1").first()["version"] for name in QUERIES}}
    write(2000)
    all_current()
for name, query in QUERIES.items():
    assert_exact(spark, name, query)
    past = spark.sql(f"SELECT version, action, status FROM refresh_history('{{name}}', 1000)").collect()
    assert max(row["version"] or 0 for row in past) > before[name], past
    actions = [row["action"] for row in past]
    assert actions.count("REINITIALIZE") == 1 and set(actions) <= {{"REINITIALIZE", "DIFFERENTIAL", "SKIPPED"}}, past
print("exact")
"""


@pytest.mark.fuzz
def test_a_scheduler_takes_over_from_that_of_a_killed_process(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with start(folders[0], FIRST_SCHEDULER) as first:
        assert first.stdout is not None and first.stdout.readline() == "created\n"
        with start(folders[1], SECOND_SCHEDULER, str(folders[0] / "spark-warehouse")) as second:
            assert second.stdout is not None and second.stdout.readline() == "ready\n"
            assert first.stdout.readline() == "written\n"  # both at work
            subprocess.run(["kill", "-9", "--", f"-{first.pid}"], check=True)
            told, _ = second.communicate("it is gone\n", timeout=500)
    assert (second.returncode, told.splitlines()[-1:]) == (0, ["exact"])  # Java may say before that its code cache is full


@pytest.mark.fuzz
def test_two_drivers_refresh_the_same_tables(tmp_path: Path) -> None:
    folders = [tmp_path / "owner", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    with start(folders[0], OWNER) as owner:
        assert owner.stdin is not None and owner.stdout is not None
        assert owner.stdout.readline() == "created\n"
        with start(folders[1], OTHER, str(folders[0] / "spark-warehouse")) as other:
            assert other.stdout is not None and other.stdout.readline() == "ready\n"
            owner.stdin.write("go on\n")
            owner.stdin.flush()
            assert owner.stdout.readline() == "written\n"
            (folders[1] / "written").touch()
            told = other.stdout.read().split()
        owner.stdin.write("go on\n")
        owner.stdin.close()
        ended = [owner.stdout.read().split(), told]
    assert [words[:1] for words in ended] == [["exact"]] * 2, ended
    assert all(int(refreshes) > 0 for _, refreshes, _ in ended), ended
