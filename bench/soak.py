"""The soak: stream tables in chains and diamonds, refreshed by their schedules, while everything that can happen does.

Writers on all sources, DDL, RESTORE, OPTIMIZE and other schedules now and then, and SIGKILL of the process with its JVM at labelled
points and at random times. At the end a scheduler alone must bring all tables up to date; then every table must VERIFY, nothing may
be suspended, what the history says came and went must be what each version holds, nothing may be rebuilt, only what a kill explains
may have failed, and no writer may complain.

    ./run soak              20 minutes; MINUTES=3 ./run soak for less, SEED=7 for other random choices
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import configure, start_scheduler
from streamtable.refresh.choose import NOT_POPULATED
from streamtable.refresh.milestones import MILESTONES, watch

MINUTES = float(os.environ.get("MINUTES", "20"))
SEED = int(os.environ.get("SEED", "1"))
LIFE = 20.0, 120.0
"""Between so many seconds a process lives once all tables are there; one in five is killed by then, maybe in a CREATE."""

REBUILDS = {NOT_POPULATED}
"""Why a table may start anew here: nothing that the writers do asks for it, nor does a column that no query uses."""

FAILURES = re.compile(r"\[STREAMTABLE_(CONCURRENT_REFRESH|SOURCE_UNAVAILABLE)\]")
"""Why a refresh may fail here: another one came first too often, or a killed CREATE left nothing of what it reads for a while."""

_ANY = "a random time"

COMPLAINTS = "complaints.txt"
"""Where writers leave what must not be."""

PASSING = re.compile("CONCURRENT|CANNOT_RESTORE", re.IGNORECASE)
"""Why a writer may fail: another one came first, in this process or in that of the scheduler, or nothing was written yet."""

# As a module: as a script its folder would be searched first, and bench/queue.py would be taken for Python's own queue.
ITSELF = (sys.executable, "-m", "bench.soak")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join((str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")))}

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.streamtable.scheduler.pollSeconds": "1",
}
BASES = ("b0", "b1", "b2", "b3")
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


def session() -> SparkSession:
    builder = configure(SparkSession.builder.master("local[2]").appName("streamtable soak"))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def make(spark: SparkSession) -> None:
    """Make what is not there yet: a process before may have been killed while it made it."""
    for n, base in enumerate(BASES):
        feed = "true" if n % 2 else "false"
        spark.sql(
            f"CREATE TABLE IF NOT EXISTS {base} (k INT, v INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = '{feed}')"
        )
    for name, (schedule, query) in TABLES.items():
        spark.sql(f"CREATE STREAM TABLE IF NOT EXISTS {name} SCHEDULE {schedule} AS {query}")


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
                f"ALTER TABLE {base} ADD COLUMN x{time.time_ns()} INT",
                f"ALTER TABLE {base} SET TBLPROPERTIES ('written' = '{v}')",
                f"ALTER STREAM TABLE {rnd.choice([*TABLES])} SET SCHEDULE '{rnd.randrange(1, 6)}s'",
            ),
            weights=(8, 4, 4, 4, 0.5, 0.2, 0.2, 1, 0.2, 0.2, 0.2, 0.3),
        )[0]
        try:
            spark.sql(statement).collect()
        except PySparkException as error:  # writers in threads of one process may meet
            if not PASSING.search(str(error)):
                with Path(COMPLAINTS).open("a") as complaints:
                    complaints.write(f"{statement}: {error}\n")


def live(seed: int, point: str) -> None:
    """Be one process: serve and write until killed, at the labelled point or from outside."""
    spark, rnd, stopping = session(), random.Random(seed), Event()
    make(spark)
    print("serving", flush=True)
    scheduler = start_scheduler(spark)
    passed = iter(range(rnd.randrange(3, 30), 0, -1))

    def kill(reached: str) -> None:
        if reached == point and next(passed, 0) == 1:
            print(f"killed {point}", flush=True)
            os.killpg(0, signal.SIGKILL)

    watch(kill)
    writers = [Thread(target=write, args=(spark, random.Random(seed + n), stopping)) for n in range(2)]
    for writer in writers:
        writer.start()
    sys.stdin.read()  # until who started this is gone: nobody would kill it any more
    stopping.set()
    for writer in writers:
        writer.join()
    scheduler.stop(60)
    spark.stop()


def caught_up(spark: SparkSession) -> bool:
    """Let a scheduler do what is left, with no help; tell whether nothing is left."""
    scheduler = start_scheduler(spark)
    until = time.monotonic() + 180
    while (behind := spark.sql("SELECT 1 FROM source_health() WHERE versions_behind > 0").count()) and time.monotonic() < until:
        time.sleep(1)
    scheduler.stop(60)
    return not behind


def untrue(spark: SparkSession, name: str, lines: Sequence[Row]) -> list[int]:
    """Return those of the latest versions that do not hold the rows of the one before with what the history says came and went."""

    def rows(version: int) -> int:
        return spark.sql(f"SELECT * FROM {name} VERSION AS OF {version}").count()

    written = {line["version"]: line for line in lines if line["action"] in ("DIFFERENTIAL", "FULL", "REINITIALIZE")}
    came = {version: line["rows_inserted"] - line["rows_deleted"] for version, line in sorted(written.items())[-10:]}
    return [version for version, more in came.items() if version and rows(version) - rows(version - 1) != more]


def judge() -> int:
    """Let the scheduler catch up and look; return how many tables are not what they should be."""
    spark = session()
    make(spark)
    table = Table("table", "status", "refreshes", "failed", "rebuilt", "untrue", "last", "VERIFY", title="After the soak")
    wrong = int(not caught_up(spark))
    for row in spark.sql("SELECT * FROM stream_tables()").collect():
        late = spark.sql(f"REFRESH STREAM TABLE {row['name']}").collect()[0]["action"]
        verdict = spark.sql(f"VERIFY STREAM TABLE {row['name']}").collect()[0]
        lines = spark.sql(f"SHOW REFRESH HISTORY FOR {row['name']}").collect()
        failed = {line["reason"] for line in lines if line["action"] == "FAILED"}
        rebuilt = {line["reason"] for line in lines if line["action"] == "REINITIALIZE"}
        lies = untrue(spark, row["name"], lines)
        explained = rebuilt <= REBUILDS and all(FAILURES.match(reason) for reason in failed)
        good = verdict["ok"] and row["status"] == "ACTIVE" and late == "NO_DATA" and explained and not lies
        wrong += not good
        table.add_row(
            row["name"],
            row["status"],
            str(len(lines)),
            "; ".join(sorted(failed)),
            "; ".join(sorted(rebuilt - {NOT_POPULATED})),
            ", ".join(map(str, lies)),
            late,
            "exact" if verdict["ok"] else f"missing {verdict['missing']}, surplus {verdict['surplus']}",
        )
    console = Console(width=160)
    console.print(table)
    if (complaints := Path(COMPLAINTS)).exists():
        console.print(complaints.read_text(), markup=False)
        wrong += 1
    spark.stop()
    return wrong


def soak(folder: str) -> int:
    """Start processes and kill them until the time is over, then judge."""
    rnd, end, console = random.Random(SEED), time.monotonic() + 60 * MINUTES, Console()
    hit = Counter[str]()
    lives = 0
    while time.monotonic() < end:
        point = min((*MILESTONES, _ANY), key=lambda each: hit[each])  # not all are passed in every life
        command = [*ITSELF, "live", str(SEED + 1000 * lives), point]
        with Path(folder, "stderr.log").open("w") as log:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        assert process.stdout is not None
        if rnd.random() < 0.8:
            process.stdout.readline()  # until it serves, or is gone
        lasts = max(1, min(rnd.uniform(*LIFE), end - time.monotonic()))
        try:
            process.wait(lasts)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode != -signal.SIGKILL:
            text = Path(folder, "stderr.log").read_text()
            raise SystemExit(f"{text[-5000:]}\na process ended by itself, with {process.returncode}")
        lives += 1
        where = point if f"killed {point}".encode() in process.stdout.read() else _ANY
        hit[where] += 1
        console.print(f"{lives} processes killed, the last one: {where}; {max(0, end - time.monotonic()):.0f} s to go")
    console.print(", ".join(f"{where}: {times}" for where, times in hit.items()))
    never = set(MILESTONES) - set(hit) if lives > 2 * len(MILESTONES) else set()
    for point in sorted(never):
        console.print(f"no process was killed {point}")
    return subprocess.run([*ITSELF, "judge"], cwd=folder, env=ENVIRONMENT, check=False).returncode + len(never)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["live", seed, point]:
            live(int(seed), point)
        case ["judge"]:
            raise SystemExit(judge())
        case _:
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
                raise SystemExit(soak(place))
