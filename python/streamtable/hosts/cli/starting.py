"""The commands for the first day: a demo that leaves nothing behind, the files to begin with, an examination."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtable.hosts.cli.options import Accept, AsJson, Conf, Fix, Remote, reported, settings_of
from streamtable.hosts.cli.output import ExitCode, Printer

if TYPE_CHECKING:
    from streamtable.hosts.cli.doctor import Check

__all__ = ["demo", "doctor", "init", "settings"]


def demo(
    rows: Annotated[int, typer.Option(min=1000, help="How many orders the shop has.")] = 1_000_000,
    rounds: Annotated[int | None, typer.Option(min=1, help="How often to change and measure; as often as time allows.")] = None,
    record: Annotated[
        Path | None, typer.Option("--record", dir_okay=False, writable=True, metavar="FILE.svg", help="Write the end as a picture.")
    ] = None,
    stay: Annotated[bool | None, typer.Option(help="Keep the console open until Ctrl-C, as on a terminal, or end at once.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a shop whose tables are kept up to date, in two minutes and a temporary folder.

    Changes trickle in. Each refresh is measured beside the MERGE that an expert writes and beside computing anew. The process is
    killed in the middle of a refresh, and another one goes on. The console is open at the end.

    streamtable demo
    """
    from streamtable.hosts.cli.demo.play import play

    if record and not os.access(record.absolute().parent, os.W_OK):
        raise typer.BadParameter(f"{record.absolute().parent} is no folder that you may write", param_hint="--record")
    out = Printer(as_json)
    play(out, rows, rounds, out.console.is_terminal if stay is None else stay, record)


def init(as_json: AsJson = False) -> None:
    """Write streamtable.toml, with all keys of [server] and examples of [spark], into the current folder.

    streamtable init && streamtable doctor
    """
    from streamtable.settings.server_file import FILE

    out = Printer(as_json)
    if FILE.exists():
        raise typer.BadParameter(f"{FILE} is there already; it was left as it is")
    FILE.touch(mode=0o600)  # it is to hold secrets
    FILE.write_text(_packaged("streamtable.toml"), encoding="utf-8")
    if as_json:
        out.json({"written": str(FILE)})
    else:
        out.text(f"wrote {FILE}; next: streamtable doctor, then streamtable sql or streamtable server")


def settings(conf: Conf = None, as_json: AsJson = False) -> None:
    """Print what a Spark needs that is started by other means than Python, as a properties file.

    streamtable settings > streamtable.conf && spark-sql --properties-file streamtable.conf
    """
    from streamtable.settings.server_file import load
    from streamtable.settings.session import PYTHON
    from streamtable.settings.spark import as_properties, settings_for

    out = Printer(as_json)
    with reported(out):
        given = {**load().spark, **settings_of(conf)}
        found = {PYTHON.key: sys.executable, **given, **settings_for(given)}
        if as_json:
            out.json(found)
        else:
            out.text(as_properties(found).rstrip())


def doctor(remote: Remote = None, conf: Conf = None, fix: Fix = False, accept: Accept = False, as_json: AsJson = False) -> None:
    """Look for what is missing or was left half done, and say how to put it right; exit code 3 when something is.

    streamtable doctor --conf spark.master=spark://cluster:7077
    streamtable doctor --fix
    """
    out = Printer(as_json)
    checks = []
    for check in _examined(out, remote, settings_of(conf), fix, accept):
        checks.append(check)
        if not as_json:
            out.text(f"{'ok' if check.ok else 'WRONG':5}  {check.name:9}  {check.found}")
            if not check.ok:
                out.text(f"       what to do: {check.remedy}")
    if as_json:
        out.json([vars(check) for check in checks])
    if not all(check.ok for check in checks):
        raise typer.Exit(ExitCode.NO_SESSION)


def _examined(out: Printer, remote: str | None, conf: dict[str, str], fix: bool, accept: bool) -> Iterator[Check]:
    """Yield the checks of `doctor`, and say meanwhile that it looks."""
    examining: Iterator[Check] | None = None
    while True:
        with out.doing("examining; the session comes last, and takes about 10 s"):
            from streamtable.hosts.cli.doctor import examined

            examining = examining or examined(remote, conf, fix, accept)
            check = next(examining, None)
        if check is None:
            return
        yield check


def _packaged(name: str) -> str:
    return (files("streamtable.hosts.cli") / name).read_text(encoding="utf-8")
