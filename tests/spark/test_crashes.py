"""The process is killed between two writes of a refresh; the next session's refresh ends exact.

In CI at some points, before and after the table is written, by `./run fuzz` at every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.spark.killed import ended, run

from streamtable.refresh.failpoints import FAILPOINTS

QUERIES = {
    "joined_groups": """SELECT a.k, a.n, b.hi FROM (SELECT k, count(*) AS n FROM l GROUP BY k) a
        JOIN (SELECT k, max(w) AS hi FROM r GROUP BY k) b ON a.k = b.k""",
    "groups_of_groups": "SELECT n, count(*) AS groups FROM (SELECT k, count(*) AS n FROM l GROUP BY k) GROUP BY n",
    "joined_rows": "SELECT l.v, r.w FROM l JOIN r ON l.k = r.k",
}

PREAMBLE = f"""
import os, signal, sys
from streamtable.refresh.failpoints import watch
from tests.oracle.comparison import assert_exact

spark = session(1)
QUERIES = {QUERIES!r}
"""

CREATE = """
for name, columns in (("l", "k INT, v INT"), ("r", "k INT, w INT")):
    spark.sql(f"CREATE TABLE {name} ({columns}) USING delta")
    spark.sql(f"INSERT INTO {name} VALUES (1, 10), (2, 20), (2, 20), (NULL, 5)")
for name, query in QUERIES.items():
    spark.sql(f"CREATE STREAM TABLE {name} REFRESH MODE DIFFERENTIAL AS {query}")
"""

KILL = """
n = int(sys.argv[2])
spark.sql(f"INSERT INTO l VALUES (2, {n}), ({30 + n}, 1)")
spark.sql(f"INSERT INTO r VALUES (2, {100 + n}), ({30 + n}, 1)")
spark.sql(f'''MERGE INTO l USING (SELECT {n - 1} AS v) AS last ON l.v = last.v
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (2, last.v)''')
def kill(reached):
    if reached == sys.argv[1]:
        os.killpg(0, signal.SIGKILL)  # the JVM too: nothing is flushed, nothing is closed
watch(kill)
spark.sql(sys.argv[3])
"""

RECOVER = """
for name, query in QUERIES.items():
    if sys.argv[3:] and name not in sys.argv[3]:
        continue
    done = spark.sql(f"REFRESH STREAM TABLE {name}").first()
    assert done["action"] in ("DIFFERENTIAL", "NO_DATA"), done
    assert_exact(spark, name, query)
"""

FILL = """
assert not spark.catalog.tableExists("fresh_joined_groups"), "a CREATE that was killed leaves its name free"
spark.sql(f"CREATE STREAM TABLE fresh_joined_groups AS {QUERIES['joined_groups']}")
assert_exact(spark, "fresh_joined_groups", QUERIES["joined_groups"])
for name in (*QUERIES, "fresh_joined_groups"):
    verdict = spark.sql(f"VERIFY STREAM TABLE {name}").first()
    assert (verdict["ok"], verdict["missing"], verdict["surplus"]) == (True, 0, 0), verdict
"""


REFRESH = "REFRESH STREAM TABLE joined_groups"
FILLING = f"CREATE STREAM TABLE fresh_joined_groups AS {QUERIES['joined_groups']}"
Kills = Sequence[tuple[str, str]]
SOME: Kills = (("between the arrangements", REFRESH), ("after the table", REFRESH))
"""A CREATE that is killed is in test_killed_statements.py and test_half_made.py."""
EVERY: Kills = (
    *((failpoint, REFRESH) for failpoint in FAILPOINTS),
    ("between the arrangements", f"{REFRESH} FULL"),
    ("between the arrangements", FILLING),
)


@pytest.mark.parametrize(
    ("kills", "unrecovered"), [(SOME, 2), pytest.param(EVERY, 3, marks=pytest.mark.fuzz)], ids=["some", "every"]
)
def test_a_process_killed_at_failpoints_ends_exact(tmp_path: Path, kills: Kills, unrecovered: int) -> None:
    """One chain of processes: each recovers from the kill before, then is killed at the next failpoint; one while it recovers."""
    for n, (failpoint, statement) in enumerate(kills, 1):
        before = {1: CREATE, unrecovered: ""}.get(n, RECOVER)
        ended(run(tmp_path, PREAMBLE + before + KILL, failpoint, str(n), statement), -9)
    ended(run(tmp_path, PREAMBLE + RECOVER + FILL), 0)
