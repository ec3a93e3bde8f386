"""Show the demo: start its processes with Spark, see the first one killed, and draw what they tell."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import typer
from rich.console import Console
from rich.live import Live

from streamtable.hosts.cli.demo.story import Story
from streamtable.hosts.cli.demo.view import happened, view
from streamtable.hosts.cli.output import ExitCode, Printer
from streamtable.hosts.server.stopping import Stopping

__all__ = ["play", "record"]

WORKER = (sys.executable, "-m", "streamtable.hosts.cli.demo.worker")
WIDTH, RECORDED = 100, 30
"""Letters and lines of the log in a picture: a round, the crash and what follows."""
TIMES_A_SECOND = 8
KILLED = -signal.SIGKILL
_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)

Hear = Callable[[dict[str, Any]], None]


def play(out: Printer, rows: int, rounds: int | None, stay: bool, picture: Path | None) -> None:
    """Show the demo in a folder that is gone afterwards. Raises typer.Exit where not everything is exact."""
    for signum in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(signum) is signal.SIG_DFL:
            signal.signal(signum, lambda told, _: sys.exit(128 + told))  # so that the processes and the folder go as well
    with TemporaryDirectory(prefix="streamtable-demo-", ignore_cleanup_errors=True) as made, ExitStack() as stack:
        folder, story, began = Path(made), Story(), time.monotonic()
        with _shown(out, story, began) as hear:
            with _worker(folder, "play", rows, rounds) as first:
                _heard(out, first, hear, story, folder / "play.log", KILLED)
            second = stack.enter_context(_worker(folder, "recover", rows, rounds))
            _heard(out, second, hear, story, folder / "recover.log", None)
        if picture:
            picture.write_text(record(story, time.monotonic() - began), encoding="utf-8")
        if not out.as_json:
            out.text(f"\n{story.farewell}")
        if stay and story.link:
            stopping = Stopping()
            stopping.listen()
            out.note("Ctrl-C ends the demo and removes its folder")
            stopping.wait(lambda: second.poll() is None)
    if not story.exact:
        raise typer.Exit(ExitCode.NOT_EXACT)


def _heard(out: Printer, process: subprocess.Popen[str], hear: Hear, story: Story, log: Path, as_it_should: int | None) -> None:
    """Take in what a process tells, to the end of the story or of the process; raise typer.Exit where it ended by a fault."""
    for event in _events(process):
        hear(event)
        if story.ended:
            return
    code = process.wait()
    if code != as_it_should:
        out.note(log.read_text(encoding="utf-8", errors="replace").strip() or f"the process of the demo ended with {code}")
        raise typer.Exit(code if code > 0 else ExitCode.FAILED)


@contextmanager
def _shown(out: Printer, story: Story, began: float) -> Iterator[Hear]:
    """Draw the story while it goes on; into a file or a pipe, write what happens line by line, and the end."""

    def hear(event: dict[str, Any]) -> None:
        before = len(story.happened)
        story.hear(event, at := time.monotonic() - began)
        if out.as_json:
            out.json({"at": round(at, 3), **event})
        elif not out.console.is_terminal:
            for line in story.happened[before:]:
                out.text(happened(line).plain)

    if out.as_json or not out.console.is_terminal:
        yield hear
        if not out.as_json:
            out.console.print(view(story, time.monotonic() - began, lines=0))
        return

    def drawn() -> Any:
        return view(story, time.monotonic() - began)

    with Live(get_renderable=drawn, console=out.console, refresh_per_second=TIMES_A_SECOND):
        yield hear


@contextmanager
def _worker(folder: Path, part: str, rows: int, rounds: int | None) -> Iterator[subprocess.Popen[str]]:
    """Start a process with Spark, in a group of its own with its JVM, and kill the group in the end."""
    with (folder / f"{part}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*WORKER, part, str(rows), str(rounds or 0)],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder), "PYTHONSAFEPATH": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def _events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        with suppress(ValueError):  # a line of somebody else, or half of one
            event = json.loads(line)
            if isinstance(event, dict) and "event" in event:
                yield event


def record(story: Story, took: float) -> str:
    """Return the end of the story as a picture that needs nothing from elsewhere."""
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(view(story, took, lines=RECORDED))
    return _FONT.sub("", console.export_svg(title="streamtable demo"))
