"""Processes are killed with SIGKILL at a file event of a statement, of the metastore's too; a new session makes all whole.

In CI one, of a statement that is drawn, by `./run fuzz -k killed` each statement at events that are spread over all of them: `EVERY` is the distance,
1 tries each. A table of the kills is printed at the end, for docs/explanation/reliability.md.
"""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

import pytest
from tests.spark.cases.every import KILLED
from tests.spark.inotify import Events
from tests.spark.killed import ended, run, start

EVERY = int(os.environ.get("EVERY", "25"))
PROGRAM = """
import sys
from pathlib import Path
from tests.spark.cases.every import KILLED
from tests.spark.failing import Killed

killed = Killed(session(1), Path.cwd() / "spark-warehouse")
before, name = sys.argv[1:]
if before:
    killed.go_on(before)
else:
    killed.begin()
if name:
    killed.ready(name)
    print("ready", flush=True)
    sys.stdin.readline()
    killed.run((KILLED[name].statement,))
    print("done", flush=True)
    sys.stdin.readline()
"""


def killed_at(folder: Path, before: str, name: str, at: int) -> int:
    """Let a process make whole what the statement `before` left, and kill it at an event of the next; return how many there were.

    They are fewer than `at` where the statement came to its end.
    """
    reached = 0
    with start(folder, PROGRAM, before, name) as process:
        assert process.stdin is not None and process.stdout is not None
        line = process.stdout.readline()
        while line and line != "ready\n":  # Java may say something before
            line = process.stdout.readline()
        assert line, f"after {before}, before {name}: {process.wait()}"
        with Events(folder / "spark-warehouse", folder / "metastore_db") as events:
            process.stdin.write("go on\n")
            process.stdin.flush()
            done = partial(readable, process.stdout)
            reached = sum(1 for _ in islice(events.until(done), at))
        os.killpg(process.pid, signal.SIGKILL)  # the JVM too, at once: a program that kills would have to start first
        process.wait()
    return reached


def readable(pipe: IO[str]) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def test_a_kill(tmp_path: Path) -> None:
    name, at = random.choice(
        [("CREATE", random.randint(5, 40)), *((each, random.randint(2, 20)) for each in ("DROP", "DROP SCHEMA"))]
    )
    assert killed_at(tmp_path, "", name, at) == at
    ended(run(tmp_path, PROGRAM, name, ""), 0)


@pytest.mark.fuzz
@pytest.mark.timeout(20_000)
@pytest.mark.parametrize("name", KILLED)
def test_kills_at_events_of_all_kinds(name: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    began, tried, survived, most = time.monotonic(), 0, 0, 0
    at = random.randint(1, min(EVERY, 5))  # within the first events, so that a statement of few is killed too
    try:
        while (
            reached := killed_at(tmp_path, name if tried else "", name, at)
        ) == at:  # it first makes whole what the kill before left
            at, tried, survived, most = at + EVERY, tried + 1, tried, at
        most = max(most, reached)  # all events, by the run without a kill
        ended(run(tmp_path, PROGRAM, name, ""), 0)
        survived = tried
        assert tried, f"{name} ended before its event {at}"
    finally:
        record_property("kills", [name, EVERY, most, tried, survived, round(time.monotonic() - began)])
