"""The soak: stream tables in chains and diamonds, refreshed by their schedules, while everything that can happen does.

Writers on all sources; DDL on them and on the stream tables, RESTORE and OPTIMIZE now and then; SIGKILL of the process with its JVM
at labelled points and at random times. At the end a scheduler alone must bring all tables up to date; then every table must VERIFY,
none may be suspended, what the history says came and went must be what each version holds, nothing may be rebuilt unasked, only
what a kill or another statement explains may have failed, and no writer may complain.

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

from bench.soak_tables import COMPLAINTS, LEAVES, make, write
from pyspark.sql import Row, SparkSession
from rich.console import Console
from rich.table import Table

from streamtable import configure, start_scheduler
from streamtable.refresh.choose import NOT_POPULATED, REPLACED
from streamtable.refresh.failpoints import FAILPOINTS, watch

MINUTES = float(os.environ.get("MINUTES", "20"))
SEED = int(os.environ.get("SEED", "1"))
LIFE = 20.0, 120.0
"""Between so many seconds a process lives once all tables are there; one in five is killed by then, maybe in a CREATE."""

REBUILDS = {NOT_POPULATED, REPLACED}
"""Why a table may start anew here: nothing else that the writers do asks for it, nor does a column that no query uses."""

FAILURES = re.compile(r"\[STREAMTABLE_(CONCURRENT_REFRESH|SOURCE_UNAVAILABLE)\]")
"""Why a refresh may fail here: another one came first too often, or what it reads was dropped or half renamed for a while."""

_ANY = "a random time"

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


def session() -> SparkSession:
    builder = configure(SparkSession.builder.master("local[2]").appName("streamtable soak"))
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def live(seed: int, point: str) -> None:
    """Be one process: serve and write until killed, at the labelled point or from outside."""
    spark, rnd, stopping = session(), random.Random(seed), Event()
    make(spark)
    print("serving", flush=True)
    scheduler = start_scheduler(spark)
    passed = iter(range(rnd.randrange(1, 12), 0, -1))

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
    for leaf in LEAVES:
        spark.sql(f"ALTER STREAM TABLE {leaf} RESUME")
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
        point = min((*FAILPOINTS, _ANY), key=lambda each: hit[each])  # not all are passed in every life
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
    never = set(FAILPOINTS) - set(hit) if lives > 2 * len(FAILPOINTS) else set()
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
