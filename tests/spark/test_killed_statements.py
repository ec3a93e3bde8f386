"""Processes are killed with SIGKILL at a file event of a statement, of the metastore's too; a new session makes all whole.

In CI one, of a statement that is drawn, by `./run fuzz -k killed` each statement at events that are spread over all of them: `EVERY` is the distance,
1 tries each. A table of the kills is printed at the end, for docs/explanation/reliability.md.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
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
WORDS = ("learns", "knows", "is ready", "is done")
"""What a process says before it waits to go on."""
PROGRAM = """
import sys
from pathlib import Path
from tests.spark.cases.every import KILLED
from tests.spark.failing import Killed

def turn(word):
    print(word, flush=True)
    sys.stdin.readline()

killed = Killed(session(1), Path.cwd() / "spark-warehouse")
before, name = sys.argv[1:]
if before:
    killed.go_on(before)
else:
    killed.begin()
if name:
    killed.ready(name, turn)
    turn("is ready")
    killed.run((KILLED[name].statement,))
    turn("is done")
"""


def killed_at(folder: Path, before: str, name: str, place: Callable[[int], int], known: int = 0) -> tuple[int, bool]:
    """Let a process make whole what the statement `before` left, and kill it at an event of the next, of which `place` says the number.

    Return how many events the statement has, which are `known` after the first time, and whether it was killed before its end.
    """
    with start(folder, PROGRAM, before, name) as process:
        word = said(process)
        if word == "learns":
            known, word = events_of(folder, process), said(process)
            assert word == "knows"
            let_go_on(process)
            word = said(process)
        assert word == "is ready", f"after {before}, before {name}: {word} {process.poll()}"
        at = place(known)
        killed = events_of(folder, process, at) == at
        os.killpg(process.pid, signal.SIGKILL)  # the JVM too, at once: a program that kills would have to start first
        process.wait()
    return known, killed


def fixed(at: int) -> Callable[[int], int]:
    return lambda _: at


def said(process: subprocess.Popen[str]) -> str:
    """Return the next word of a process; Java may say something in between."""
    assert process.stdout is not None
    return next((line.strip() for line in process.stdout if line.strip() in WORDS), "")


def let_go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go on\n")
    process.stdin.flush()


def events_of(folder: Path, process: subprocess.Popen[str], most: int | None = None) -> int:
    """Let a process go on until its next word, or until so many events; return how many there were."""
    assert process.stdout is not None
    with Events(folder / "spark-warehouse", folder / "metastore_db") as events:
        let_go_on(process)
        return sum(1 for _ in islice(events.until(partial(readable, process.stdout)), most))


def readable(pipe: IO[str]) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def test_a_kill(tmp_path: Path) -> None:
    name = random.choice(["CREATE", "DROP", "DROP SCHEMA"])
    _, killed = killed_at(tmp_path, "", name, lambda events: random.randint(1, events // 2))
    assert killed
    ended(run(tmp_path, PROGRAM, name, ""), 0)


@pytest.mark.fuzz
@pytest.mark.timeout(20_000)
@pytest.mark.parametrize("name", KILLED)
def test_kills_at_events_of_all_kinds(name: str, tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    began, events, tried, survived = time.monotonic(), 0, 0, 0
    try:
        events, killed = killed_at(tmp_path, "", name, lambda events: random.randint(1, min(EVERY, events)))
        tried = int(killed)
        for at in range(random.randint(1, EVERY) + EVERY, events + 1, EVERY):
            _, killed = killed_at(tmp_path, name, name, fixed(at), events)  # makes whole first what the kill before left
            survived, tried = tried, tried + killed
        ended(run(tmp_path, PROGRAM, name, ""), 0)
        survived = tried
        assert tried, f"{name} ended before it was killed"
    finally:
        record_property("kills", [name, EVERY, events, tried, survived, round(time.monotonic() - began)])
