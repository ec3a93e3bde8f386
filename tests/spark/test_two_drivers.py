"""Two drivers, each with a catalog of its own, refresh the same tables at once: no change is lost, none comes twice."""

from __future__ import annotations

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
