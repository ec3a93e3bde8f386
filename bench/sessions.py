"""Fifty JDBC sessions at once for five minutes, while the scheduler runs: no error but the clients' own, and nothing that grows.

Each session changes sources, reads stream tables, refreshes them, follows one by a cursor and types nonsense; half of them log
out and in again, mostly without a CLOSE.
Threads, files (connections among them), memory and Spark's sessions in the server are looked at when all users are gone: after half
a minute, when the pools of Spark and HiveServer2 have their size, and at the end.

    ./run soak sessions         MINUTES=1 SESSIONS=10 ./run soak sessions for less
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from impala.dbapi import connect
from impala.error import Error
from rich.console import Console
from rich.table import Table

from streamtable.hosts.server.passwords import add_user
from streamtable.sessions.internal import MOST_IDLE

MINUTES = float(os.environ.get("MINUTES", "5"))
WARM_UP = 0.5
USER, PASSWORD = "soak", "any"
SESSIONS = int(os.environ.get("SESSIONS", "50"))

CONFIGURATION = """
[spark]
"spark.master" = "local[2]"
"spark.driver.memory" = "4g"
"spark.sql.shuffle.partitions" = "2"
"spark.log.level" = "ERROR"
[server]
users = "users.txt"
thrift_port = 0
connect_port = 0
metrics_port = 0
console_port = -1
"""
SETUP = (
    "CREATE TABLE sales (id INT, region STRING, amount INT) USING delta",
    "INSERT INTO sales SELECT CAST(id AS INT), concat('r', id % 10), CAST(id % 97 AS INT) FROM range(1000)",
    "CREATE STREAM TABLE large SCHEDULE '2s' AS SELECT id, amount FROM sales WHERE amount > 50",
    "CREATE STREAM TABLE by_region SCHEDULE '2s' AS SELECT region, count(*) AS n, sum(amount) AS total FROM sales GROUP BY region",
    "CREATE STREAM TABLE top SCHEDULE '5s' AS SELECT region, total FROM by_region WHERE total > 100",
)
STATEMENTS = (
    "SELECT count(*), sum(amount) FROM large",
    "SELECT * FROM by_region ORDER BY region",
    "SHOW STREAM TABLES",
    "SELECT * FROM stream_tables()",
    "SELECT * FROM refresh_history('top', 5)",
    "DESCRIBE STREAM TABLE top",
    "EXPLAIN STREAM TABLE top",
    "REFRESH STREAM TABLE by_region",
    "REFRESH STREAM TABLE top CASCADE",
    "INSERT INTO sales VALUES (1, 'r1', 7), (2, 'r2', 80)",
    "DECLARE changes CURSOR FOR SUBSCRIBE by_region",
    "FETCH ALL changes WITH (TIMEOUT = '0s')",
    "CLOSE changes",
    "REFRESH STREAM TABLE nobody",
    "CREATE STREAM TABLE wrong SCHEDULE AS SELECT 1 AS a",
)
CURSORS = ("DECLARE", "FETCH", "CLOSE")
OWN_ERRORS = (
    "STREAMTABLE_NOT_FOUND",
    "STREAMTABLE_SYNTAX_ERROR",
    "STREAMTABLE_CONCURRENT_REFRESH",
    "STREAMTABLE_CURSOR_EXISTS",
    "STREAMTABLE_CURSOR_NOT_FOUND",
)
"""What the statements ask for; that somebody else refreshed a table at the same moment; cursors in any order."""
NAMELESS = "Expected state FINISHED, but found ERROR"
"""What HiveServer2 says of a failed statement when it is asked before the error is stored: it sets the state first."""
UNTIL_IDLE = 75
"""After so many seconds idle threads are gone: those that log clients in and those of Spark's queries last for a minute."""
REFUSED = STATEMENTS[-2:]
"""What fails whenever it is asked."""

GROWTH = {"threads": 1.1, "files": 1.1, "python_mib": 1.2, "heap_mib": 1.3, "sessions": 1.2}
POOLED = {"sessions": 2 * MOST_IDLE, "heap_mib": 5 * MOST_IDLE // 2}
"""Growth beside that: the pool of idle sessions fills as far as statements run at once, up to its bound, and a warm-up may not fill
it. A session has two of Spark's objects, and takes 2.5 MiB."""
SESSION = re.compile(r"^ *\d+: +(\d+) .* org\.apache\.spark\.sql\.(?:classic\.SparkSession|\S*SessionState)(?: |$)", re.MULTILINE)
"""Lines of a histogram of the heap: what a session is, with its temporary views and settings."""

POOL = "block-manager"
"""The 200 threads that Spark's block manager makes when many frames are dropped, and keeps."""


@dataclass(frozen=True)
class Held:
    """What the server's processes hold after a collection, when no session is there."""

    threads: int
    files: int
    python_mib: int
    heap_mib: int | None
    sessions: int | None
    """Spark's objects of sessions; it and the heap are None where nothing measures them."""
    names: Counter[str] = field(default_factory=Counter, repr=False)
    """How many threads have each name, without numbers."""

    def grown_since(self, before: Held) -> list[str]:
        """Return what is more than it was, by more than pools and caches are by chance."""

        def most(what: str) -> float:
            return GROWTH[what] * (getattr(before, what) or 0) + POOLED.get(what, 0)

        return [what for what in GROWTH if (getattr(self, what) or 0) > most(what)]

    def new_threads(self, before: Held) -> str:
        """Return the names of the threads that are more, those of most threads first."""
        return ", ".join(f"{name}: {n}" for name, n in (self.names - before.names).most_common(8))

    @classmethod
    def by(cls, python: int) -> Held:
        (java,) = (int(each) for each in Path(f"/proc/{python}/task/{python}/children").read_text().split() if _is_java(each))
        both = (python, java)
        heap, sessions = (_heap(java), _sessions(java)) if shutil.which("jcmd") else (None, None)
        time.sleep(5)  # until Python saw which connections are closed
        status = Path(f"/proc/{python}/status").read_text()
        resident = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]
        names = Counter(re.sub(r"\d+", "", _named(task)) for pid in both for task in Path(f"/proc/{pid}/task").iterdir())
        threads = sum(n for name, n in names.items() if not name.startswith(POOL))
        files = sum(1 for pid in both for _ in Path(f"/proc/{pid}/fd").iterdir())
        return cls(threads, files, resident, heap, sessions, names)


def _is_java(pid: str) -> bool:
    return _named(Path("/proc", pid)) == "java"


def _named(task: Path) -> str:
    """Return the name of a process or thread; it may have ended since it was listed."""
    try:
        return (task / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _heap(java: int) -> int:
    used = list[int]()
    # The least of several: Spark frees blocks after a collection, and a scheduled refresh that runs just now has some.
    for _ in range(6):
        subprocess.run(["jcmd", str(java), "GC.run"], check=True, capture_output=True)
        time.sleep(5)
        told = subprocess.run(["jcmd", str(java), "GC.heap_info"], check=True, capture_output=True, text=True).stdout
        used.append(sum(int(each) for each in re.findall(r"(?:heap|Gen)\s+total \d+K, used (\d+)K", told)) // 1024)
    return min(used)


def _sessions(java: int) -> int:
    """Count what is in reach: the histogram begins with a collection."""
    told = subprocess.run(["jcmd", str(java), "GC.class_histogram"], check=True, capture_output=True, text=True).stdout
    found = [int(each) for each in SESSION.findall(told)]
    assert found, "a server has sessions of its own"
    return sum(found)


@contextmanager
def server(folder: Path) -> Iterator[tuple[int, int]]:
    """Run `streamtable server`; yields its process and the port of Thrift."""
    (folder / "streamtable.toml").write_text(CONFIGURATION)
    add_user(folder / "users.txt", USER, PASSWORD)
    with (folder / "server.log").open("w") as log:
        command = [sys.executable, "-m", "streamtable", "server", "--json"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    assert said, (folder / "server.log").read_text()
    (folder / "addresses.json").write_text(said)
    try:
        yield process.pid, int(json.loads(said)["thrift"].rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(120)


def connect_of(folder: Path) -> str:
    """Return where the server of a folder answers Spark Connect."""
    return str(json.loads((folder / "addresses.json").read_text())["connect"])


@contextmanager
def cursor(port: int) -> Iterator[Any]:
    """Log in over Thrift, as a session of its own."""
    login = {"auth_mechanism": "PLAIN", "user": USER, "password": PASSWORD}
    with closing(connect(host="127.0.0.1", port=port, timeout=300, **login)) as connection, closing(connection.cursor()) as made:
        yield made


def reason(session: Any, error: Error) -> str:
    """Return why a statement failed; a failure that has no name is asked for it again."""
    if NAMELESS in str(error):
        time.sleep(0.5)
        try:
            session._wait_to_finish()
        except Error as named:
            return str(named)
    return str(error)


def use(port: int, seed: int, until: float, told: Counter[str], wrong: list[str]) -> None:
    """Be one user; those with an even number log out after every few statements."""
    rnd = random.Random(seed)
    while time.monotonic() < until:
        with cursor(port) as session:
            while time.monotonic() < until:
                statement = rnd.choice(STATEMENTS)
                try:
                    session.execute(statement)
                    if not statement.startswith("INSERT"):  # impyla cannot fetch nothing
                        session.fetchall()
                    told["done"] += 1
                except Error as error:
                    said = reason(session, error)
                    fails = statement in REFUSED or statement.startswith(("REFRESH", *CURSORS))
                    expected = (*(OWN_ERRORS if fails else ()), *((NAMELESS,) if statement in REFUSED else ()))
                    own = next((each for each in expected if each in said), None)
                    told[own or "wrong"] += 1
                    wrong += [] if own else [f"{statement}: {said}"]
                if seed % 2 == 0 and rnd.random() < 0.2:
                    break


def all_users(port: int, minutes: float, told: Counter[str], wrong: list[str]) -> None:
    """Let them work, and wait until nothing of their sessions is left to run."""
    until = time.monotonic() + 60 * minutes
    with ThreadPoolExecutor(SESSIONS) as pool:
        users = [pool.submit(use, port, n, until, told, wrong) for n in range(SESSIONS)]
    for user in users:
        user.result()  # raises what ended a user before the time
    time.sleep(UNTIL_IDLE)
    with cursor(port) as session:
        session.execute("SHOW STREAM TABLES")  # a statement closes the connections of threads that are gone


def main() -> int:
    """Run it, print what was held and what happened; the status is 1 when something went wrong or grew."""
    told, wrong, console = Counter[str](), list[str](), Console(width=120)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, server(Path(place)) as (python, port):
        with cursor(port) as session:
            for statement in SETUP:
                session.execute(statement)
        all_users(port, WARM_UP, Counter[str](), wrong)
        early = Held.by(python)
        all_users(port, MINUTES, told, wrong)
        late = Held.by(python)
        with cursor(port) as session:
            for name in ("large", "by_region", "top"):
                session.execute(f"VERIFY STREAM TABLE {name}")
                wrong += [f"{row}" for row in session.fetchall() if row[1] is not True]
    table = Table("no session is there", "after a warm-up", "at the end", title=f"{SESSIONS} sessions, {MINUTES:g} minutes")
    for what in GROWTH:
        values = (getattr(held, what) for held in (early, late))
        table.add_row(what, *("not measured: there is no jcmd" if value is None else f"{value:,}" for value in values))
    console.print(table)
    console.print(", ".join(f"{what}: {count:,}" for what, count in sorted(told.items())))
    for text in wrong[:5]:
        console.print(text[:2000], markup=False)
    grown = late.grown_since(early)
    if grown:
        console.print(f"more than before: {', '.join(grown)}; threads: {late.new_threads(early)}", markup=False)
    return int(bool(wrong or grown))


if __name__ == "__main__":
    raise SystemExit(main())
