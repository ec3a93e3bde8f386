"""The commands for the first day: a demo that leaves nothing behind, and the files to begin with."""

from __future__ import annotations

import os
import sys
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import typer

from streamtable.hosts.cli.options import AsJson, Conf, cli_context, reported, settings_of
from streamtable.hosts.cli.output import Printer
from streamtable.language.scripts import split
from streamtable.settings.server_file import FILE, load
from streamtable.settings.session import PYTHON
from streamtable.settings.spark import as_properties, settings_for

__all__ = ["demo", "init", "settings"]


def demo(as_json: AsJson = False) -> None:
    """Run a small example in a temporary folder: sources, a stream table, changes, a refresh, and the proof.

    streamtable demo
    """
    with TemporaryDirectory(prefix="streamtable-demo-", ignore_cleanup_errors=True) as folder:
        before = Path.cwd()
        os.chdir(folder)  # the catalog is kept in the current folder
        try:
            with cli_context(None, None, as_json) as context:
                for piece in split(_packaged("demo.sql")):
                    if not as_json:
                        context.out.text(f"\n{piece.sql};")
                    context.out.answer(context.spark, piece.sql, limit=100)
        finally:
            os.chdir(before)


def init(as_json: AsJson = False) -> None:
    """Write streamtable.toml, with every setting and its default, into the current folder.

    streamtable init && streamtable doctor
    """
    out = Printer(as_json)
    if FILE.exists():
        raise typer.BadParameter(f"{FILE} is there already; it was left as it is")
    FILE.write_text(_packaged("streamtable.toml"), encoding="utf-8")
    if as_json:
        out.json({"written": str(FILE)})
    else:
        out.text(f"wrote {FILE}; next: streamtable doctor, then streamtable sql or streamtable server")


def settings(conf: Conf = None, as_json: AsJson = False) -> None:
    """Print what a Spark needs that is started by other means than Python, as a properties file.

    streamtable settings > streamtable.conf && spark-sql --properties-file streamtable.conf
    """
    out = Printer(as_json)
    with reported(out):
        given = {**load().spark, **settings_of(conf)}
        found = {PYTHON.key: sys.executable, **given, **settings_for(given)}
        if as_json:
            out.json(found)
        else:
            out.text(as_properties(found).rstrip())


def _packaged(name: str) -> str:
    return (files("streamtable.hosts.cli") / name).read_text(encoding="utf-8")
