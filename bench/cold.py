"""From the start of a process to the first answer: `streamtable --version`, `status` of a server, `status` with a Spark of its own.

`./run bench cold`; `ROUNDS=9` for more than five. stderr is a terminal, as it is for people: there the first sign is the line that
says what the command does. The first round of each is left out, because it reads the files of Python and Java from the disk.
"""

from __future__ import annotations

import os
import pty
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bench.sessions import connect_of, server
from rich.console import Console
from rich.table import Table

ROUNDS = int(os.environ.get("ROUNDS", "5"))
COMMAND = (sys.executable, "-m", "streamtable")
SETUP = (
    "CREATE TABLE sales (id INT, amount INT) USING delta; INSERT INTO sales VALUES (1, 10), (2, 20);"
    "CREATE STREAM TABLE total AS SELECT sum(amount) AS total FROM sales"
)


def timed(arguments: Sequence[str], folder: Path) -> tuple[float, float, float]:
    """Run a command; return the seconds until its first sign on stderr (its answer if it gives none), its answer, and its end."""
    ours, theirs = pty.openpty()
    started = time.perf_counter()
    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen([*COMMAND, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    assert process.stdout is not None
    answers, first = process.stdout.fileno(), dict[int, float]()
    with selectors.DefaultSelector() as waiting, process.stdout:
        for file in (ours, answers):
            waiting.register(file, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                data = b""
                with suppress(OSError):  # how a terminal ends
                    data = os.read(key.fd, 65536)
                if data:
                    first.setdefault(key.fd, time.perf_counter() - started)
                else:
                    waiting.unregister(key.fd)
    os.close(ours)
    assert process.wait() == 0, f"streamtable {' '.join(arguments)} failed"
    return first.get(ours, first[answers]), first[answers], time.perf_counter() - started


def medians(arguments: Sequence[str], folder: Path) -> list[float]:
    """Return the medians of `timed`."""
    rounds = [timed(arguments, folder) for _ in range(ROUNDS + 1)][1:]
    return [statistics.median(each) for each in zip(*rounds, strict=True)]


def main() -> None:
    """Print the seconds of each command."""
    shown = Table("streamtable", "first sign s", "answer s", "end s", title=f"{os.cpu_count()} cores, medians of {ROUNDS}")
    with tempfile.TemporaryDirectory(prefix="streamtable-bench-") as name:
        folder = Path(name)
        subprocess.run([*COMMAND, "run", "-e", SETUP], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        found = {"--version": medians(["--version"], folder), "status, a Spark of its own": medians(["status"], folder)}
        with server(folder):
            found["status, of a server"] = medians(["status", "--remote", connect_of(folder)], folder)
    for command, taken in found.items():
        shown.add_row(command, *(f"{each:.2f}" for each in taken))
    Console(width=110).print(shown)


if __name__ == "__main__":
    main()
