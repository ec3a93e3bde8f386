"""The options that many commands share, and their handling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from streamtable.api.tables import StreamTables
from streamtable.errors import NotEnabled
from streamtable.hosts.cli.output import ERRORS_OF_SPARK, ExitCode, Printer
from streamtable.hosts.cli.sessions import NO_JAVA, ended, opened, silence

__all__ = [
    "Accept",
    "AsJson",
    "CliContext",
    "Conf",
    "Fix",
    "Limit",
    "Remote",
    "TableName",
    "cli_context",
    "reported",
    "settings_of",
]

Remote = Annotated[
    str | None,
    typer.Option("--remote", envvar="SPARK_REMOTE", metavar="sc://HOST:PORT", help="Ask a server by Spark Connect."),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", "-c", metavar="KEY=VALUE", help="A setting of Spark, for a session of its own.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Fix = Annotated[bool, typer.Option("--fix", help="Mend what statements left that were killed.")]
Accept = Annotated[bool, typer.Option("--accept", help="Accept definitions that the catalog never knew, as after an upgrade.")]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many rows of a result to print.")]
TableName = Annotated[str, typer.Argument(metavar="NAME", help="The stream table, written as in SQL.")]


@dataclass(frozen=True)
class CliContext:
    """The session and the output of a command."""

    spark: SparkSession
    out: Printer

    @property
    def tables(self) -> StreamTables:
        return StreamTables(self.spark)


@contextmanager
def cli_context(remote: str | None, conf: list[str] | None, as_json: bool) -> Iterator[CliContext]:
    """Open the session of the options. Errors are printed, and become exit codes."""
    out = Printer(as_json)
    silence()
    with reported(out), opened(remote, settings_of(conf)) as spark:
        yield CliContext(spark, out)


@contextmanager
def reported(out: Printer, at: str | None = None) -> Iterator[None]:
    """Print an error of Spark's or ours instead of a traceback, and end the process by its exit code."""
    try:
        yield
    except NotEnabled as error:
        out.error(error, at)
        raise typer.Exit(ExitCode.NO_SESSION) from None
    except (*ERRORS_OF_SPARK, *NO_JAVA) as error:
        end = ended(error)
        if end is None and not isinstance(error, ERRORS_OF_SPARK):
            raise
        out.error(end or error, at)
        raise typer.Exit(ExitCode.NO_SESSION if end else ExitCode.FAILED) from None


def settings_of(conf: list[str] | None) -> dict[str, str]:
    """Read the KEY=VALUE pairs."""
    pairs = [pair.partition("=") for pair in conf or []]
    for key, equals, _ in pairs:
        if not equals:
            raise typer.BadParameter(f"{key} has no value; write {key}=VALUE", param_hint="--conf")
    return {key.strip(): value.strip() for key, _, value in pairs}
