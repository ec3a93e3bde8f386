"""Processes are killed with SIGKILL at a file event of a statement, of the metastore's too; a new session makes all whole.

In CI one, of a statement that is drawn, by `./run fuzz -k killed` each statement at events that are spread over all of them: `EVERY` is the distance,
1 tries each. A table of the kills is printed at the end, for docs/explanation/reliability.md. `ONLY` names some statements.
"""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import IO

import pytest
from tests.spark.cases.every import KILLED
from tests.spark.inotify import Events
from tests.spark.killed import ended, run, start

EVERY = int(os.environ.get("EVERY", "25"))
CHOSEN = os.environ["ONLY"].split(",") if "ONLY" in os.environ else [*KILLED]
PROGRESS = Path(".build", "kills.txt").resolve()
"""Each kill whose statement was made whole, for those who end the run before its table."""
PATIENCE = 600
"""After how many seconds without a word a process hangs."""
WHOLE = "is whole"
WORDS = (WHOLE, "learns", "knows", "is ready", "is done")
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
    print("is whole", flush=True)
else:
    killed.begin()
if name:
    killed.ready(name, turn)
    turn("is ready")
    killed.run((KILLED[name].statement,))
    turn("is done")
"""


class NotWhole(AssertionError):
    """What a kill left was not made whole."""


def killed_at(
    folder: Path,
    before: str,
    name: str,
    place: Callable[[int], int],
    known: int = 0,
    survived: Callable[[], None] = lambda: None,
) -> tuple[int, bool]:
    """Let a process make whole what the statement `before` left, and kill it at an event of the next, of which `place` says the number.

    Call `survived` in between. Return how many events the statement has, which are `known` after the first time, and whether it was
    killed before its end. Raises NotWhole.
    """
    with start(folder, PROGRAM, before, name) as process:
        word = said(process)
        if before:
            if word != WHOLE:
                raise NotWhole(f"what a kill of {before} left is not made whole")
            survived()
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


def said(process: subprocess.Popen[str]) -> str:
    """Return the next word of a process; Java may say something in between. Who says nothing for too long is killed, and says nothing."""
    assert process.stdout is not None
    hanging = Timer(PATIENCE, os.killpg, (process.pid, signal.SIGKILL))
    hanging.start()
    try:
        return next((line.strip() for line in process.stdout if line.strip() in WORDS), "")
    finally:
        hanging.cancel()


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


@dataclass
class Told:
    """What is told of the kills of one statement."""

    events: int = 0
    tried: int = 0
    survived: int = 0
    seconds: float = 0


class Kills:
    """One kill after the other in one warehouse: the process that is killed next makes whole first what the kill before left."""

    def __init__(self, new_folder: Callable[[], Path]) -> None:
        self._new_folder = new_folder
        self._folder, self._killed, self._counts, self._at = new_folder(), "", False, 0
        self.told, self.broken = dict[str, Told](), list[str]()
        PROGRESS.parent.mkdir(exist_ok=True)

    def of(self, name: str) -> None:
        """Kill a statement at an event, and at each `EVERY`-th after it."""
        told, began = self.told.setdefault(name, Told()), time.monotonic()
        at = self._kill(name, told, 0)
        while (at := at + EVERY) <= told.events:
            self._kill(name, told, at)
        told.seconds = time.monotonic() - began

    def _kill(self, name: str, told: Told, at: int) -> int:
        """Kill a statement at an event, or at one of the first where that is 0; return which it was."""
        places = list[int]()

        def place(events: int) -> int:
            places.append(at or random.randint(1, min(EVERY, events)))
            return places[0]

        try:
            told.events, killed = killed_at(self._folder, self._killed, name, place, told.events, self._survived)
        except AssertionError as error:  # the process has told on stderr why
            self._goes_on_elsewhere(str(error))
            return self._kill(name, told, at) if isinstance(error, NotWhole) else EVERY
        self._killed, self._counts, self._at = name, killed, places[0]
        told.tried += killed
        return places[0]

    def _survived(self) -> None:
        if self._counts:
            told = self.told[self._killed]
            told.survived += 1
            with PROGRESS.open("a") as file:
                file.write(f"{self._killed}: killed at event {self._at} of {told.events}, made whole\n")

    def _goes_on_elsewhere(self, why: str) -> None:
        """Keep why something is broken, and leave it where it is."""
        self.broken.append(why)
        self._folder, self._killed, self._counts = self._new_folder(), "", False

    def end(self) -> None:
        """Make whole what the last kill left, in a process of its own."""
        if self._killed:
            done = run(self._folder, PROGRAM, self._killed, "")
            if done.returncode != 0:
                self._goes_on_elsewhere(f"what a kill of {self._killed} left is not made whole: {done.stderr[-3000:]}")
            else:
                self._survived()


PARTS = 2
"""As many as run at once."""


@pytest.mark.fuzz
@pytest.mark.timeout(40_000)
@pytest.mark.parametrize("part", range(PARTS))
def test_kills_at_events_of_all_kinds(
    part: int, tmp_path_factory: pytest.TempPathFactory, record_property: Callable[[str, object], None]
) -> None:
    kills = Kills(lambda: tmp_path_factory.mktemp("kills"))
    try:
        for name in CHOSEN[part::PARTS]:
            kills.of(name)
        kills.end()
    finally:
        for name, told in kills.told.items():
            record_property("kills", [name, EVERY, told.events, told.tried, told.survived, round(told.seconds)])
    assert not kills.broken, "\n\n".join(kills.broken)
    assert all(told.tried for told in kills.told.values()), kills.told
