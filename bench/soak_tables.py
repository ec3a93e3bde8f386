"""The tables of the soak, and what everybody does to them."""

from __future__ import annotations

import random
import re
import time
from contextlib import suppress
from pathlib import Path
from threading import Event

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.errors import StreamTableNotFound

COMPLAINTS = "complaints.txt"
"""Where writers leave what must not be."""

PASSING = re.compile("CONCURRENT|CANNOT_RESTORE|STREAMTABLE_NOT_FOUND|FIELD_NOT_FOUND|COLUMN_NOT_FOUND", re.IGNORECASE)
"""Why a writer may fail: another one came first (also with a RENAME or DROP, of a column as well), or nothing was written yet."""

BASES = ("b0", "b1", "b2", "b3")
MAPPED = ("b2", "b3")
"""Those whose columns can be dropped and renamed."""
MATCHED = "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
TABLES = {
    **{f"filtered{n}": ("'1s'", f"SELECT k, v FROM b{n} WHERE v % 3 <> 0") for n in range(4)},
    **{f"counted{n}": ("'2s'", f"SELECT k, count(*) AS n, sum(v) AS s, max(v) AS m FROM b{n} GROUP BY k") for n in range(4)},
    "joined01": ("'2s'", "SELECT b0.k, b0.v, b1.v AS w FROM b0 JOIN b1 ON b0.k = b1.k AND b0.v < b1.v"),
    "padded23": ("'3s'", "SELECT b2.k, b2.v, b3.v AS w FROM b2 LEFT JOIN b3 ON b2.k = b3.k AND b3.v > 50"),
    "diamond0": ("'2s'", "SELECT f.k, f.v, c.n FROM filtered0 f JOIN counted0 c ON f.k = c.k"),
    "diamond1": ("'3s'", "SELECT c.k, c.s, f.v FROM counted1 c LEFT JOIN filtered1 f ON f.k = c.k"),
    "missing2": ("'3s'", "SELECT k FROM counted2 EXCEPT SELECT k FROM filtered2"),
    "distinct3": ("'1s'", "SELECT DISTINCT k FROM filtered3"),
    "sums": ("'4s'", "SELECT k, s FROM counted0 UNION ALL SELECT k, s FROM counted1 UNION ALL SELECT k, m FROM counted2"),
    "totals": ("'5s'", "SELECT count(*) AS n, sum(s) AS s FROM sums"),
    "ranked": ("'3s'", "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM filtered0"),
    "groups_of_groups": ("CALCULATED", "SELECT n, count(*) AS groups FROM diamond0 GROUP BY n"),
    "top": ("'5s'", "SELECT n, groups FROM groups_of_groups ORDER BY groups DESC, n LIMIT 3"),
    "wide": ("'4s'", "SELECT d.k, d.v, j.w FROM diamond1 d JOIN joined01 j ON d.k = j.k"),
}
OTHERWISE = {
    "filtered1": "SELECT k, v FROM b1 WHERE v % 4 <> 0",
    "joined01": "SELECT b0.k, b0.v, b1.v AS w FROM b0 JOIN b1 ON b0.k = b1.k AND b0.v > b1.v",
    "ranked": "SELECT k, v, dense_rank() OVER (PARTITION BY k ORDER BY v) AS r FROM filtered0",
}
"""What these tables are now and then instead."""
RENAMED = ("filtered0", "sieved0")
LEAVES = ("totals", "top", "wide", "distinct3")
"""Nobody reads these."""


def make(spark: SparkSession) -> None:
    """Make what is not there yet: a process before may have been killed while it made, or renamed, it."""
    for names in (RENAMED, RENAMED[::-1]):
        with suppress(StreamTableNotFound):
            spark.sql(renamed(*names))
    for n, base in enumerate(BASES):
        feed, mapping = "true" if n % 2 else "false", "name" if base in MAPPED else "none"
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {base} (k INT, v INT) USING delta "
            f"TBLPROPERTIES ('delta.enableChangeDataFeed' = '{feed}', 'delta.columnMapping.mode' = '{mapping}')"
        )
    for name in TABLES:
        spark.sql(created(name))


def renamed(old: str, new: str) -> str:
    return f"ALTER STREAM TABLE {old} RENAME TO {new}"


def created(name: str) -> str:
    schedule, query = TABLES[name]
    return f"CREATE STREAM TABLE IF NOT EXISTS {name} SCHEDULE {schedule} AS {query}"


def ddl(rnd: random.Random) -> str:
    """Return what somebody may do to a stream table."""
    name, (old, new) = rnd.choice(list(TABLES)), rnd.sample(RENAMED, 2)
    other, leaf = rnd.choice(list(OTHERWISE)), rnd.choice(LEAVES)
    query = rnd.choice((OTHERWISE[other], TABLES[other][1]))
    return rnd.choice(
        (
            f"ALTER STREAM TABLE {name} SET SCHEDULE '{rnd.randrange(1, 6)}s'",
            f"ALTER STREAM TABLE {other} AS {query}",
            f"CREATE OR REPLACE STREAM TABLE {other} SCHEDULE '2s' AS {query}",
            renamed(old, new),
            f"ALTER STREAM TABLE {leaf} SUSPEND",
            f"ALTER STREAM TABLE {leaf} RESUME",
            f"DROP STREAM TABLE IF EXISTS {leaf}",
            created(leaf),
        )
    )


def reshaped(spark: SparkSession, rnd: random.Random, base: str) -> str:
    """Return what somebody may do to a column that no query uses."""
    new, unused = f"x{time.time_ns()}", spark.table(base).columns[2:]
    if base not in MAPPED or not unused or rnd.random() < 0.4:
        return f"ALTER TABLE {base} ADD COLUMN {new} INT"
    old = rnd.choice(unused)
    return f"ALTER TABLE {base} " + rnd.choice((f"DROP COLUMN {old}", f"RENAME COLUMN {old} TO {new}"))


def write(spark: SparkSession, rnd: random.Random, stopping: Event) -> None:
    """Change one table after the other at random until told to stop."""
    while not stopping.wait(rnd.uniform(0.1, 1.5)):
        base, k, v = rnd.choice(BASES), rnd.randrange(12), rnd.randrange(100)
        statement = rnd.choices(
            (
                f"INSERT INTO {base} (k, v) SELECT id % 12, cast(rand({v}) * 100 AS INT) FROM range({rnd.randrange(1, 40)})",
                f"DELETE FROM {base} WHERE k = {k} AND v < {v}",
                f"UPDATE {base} SET v = v + 1 WHERE k = {k}",
                f"MERGE INTO {base} t USING (SELECT {k} AS k, {v} AS v) s ON t.k = s.k AND t.v = s.v {MATCHED}",
                f"INSERT OVERWRITE {base} (k, v) SELECT k, v FROM {base} WHERE v < 90",
                f"TRUNCATE TABLE {base}",
                f"RESTORE TABLE {base} TO VERSION AS OF 1",
                f"OPTIMIZE {base}",
                f"REORG TABLE {base} APPLY (PURGE)",
                None,
                f"ALTER TABLE {base} SET TBLPROPERTIES ('written' = '{v}')",
                ddl(rnd),
            ),
            weights=(8, 4, 4, 4, 0.5, 0.2, 0.2, 1, 0.2, 0.6, 0.2, 1),
        )[0]
        try:
            statement = statement or reshaped(spark, rnd, base)
            spark.sql(statement).collect()
        except PySparkException as error:  # writers in threads of one process may meet
            if not PASSING.search(str(error)):
                with Path(COMPLAINTS).open("a") as complaints:
                    complaints.write(f"{statement}: {error}\n")
