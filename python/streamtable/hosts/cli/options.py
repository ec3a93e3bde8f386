"""The options that many commands share, and their handling.

Commands import Spark only after they said what they do, because that alone takes a second: no module that is imported at the
start of the command line imports pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from streamtable.hosts.cli.output import ExitCode, Printer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamtable.api.tables import StreamTables

__all__ = [
    "STARTING",
    "Accept",
    "AsJson",
    "CliContext",
    "Conf",
    "Fix",
    "GraphFormat",
    "Limit",
    "Remote",
    "Schemas",
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
Schemas = Annotated[
    list[str] | None, typer.Option("--schema", "-s", metavar="SCHEMA", help="Only stream tables of this schema; may be repeated.")
]


class GraphFormat(str, Enum):
    """How a graph is drawn."""

    TEXT = "text"
    DOT = "dot"
    SVG = "svg"


STARTING, CONNECTING = "starting Spark, about 10 s", "connecting to the server"


@dataclass(frozen=True)
class CliContext:
    """The session and the output of a command."""

    spark: SparkSession
    out: Printer

    @property
    def tables(self) -> StreamTables:
        from streamtable.api.tables import StreamTables

        return StreamTables(self.spark)

    def within(self, schemas: list[str] | None) -> Callable[[str], bool]:
        """Return a test whether the stream table of a full name is in one of the schemas; all are without schemas."""
        if not schemas:
            return lambda name: True
        from streamtable.hosts.cli.selection import in_schemas

        return in_schemas(self.spark, schemas)


def opened(remote: str | None, conf: Mapping[str, str]) -> AbstractContextManager[SparkSession]:
    """Open the session of a command; Spark is imported only here."""
    from streamtable.hosts.cli import sessions

    sessions.silence()
    return sessions.opened(remote, conf)


@contextmanager
def cli_context(remote: str | None, conf: list[str] | None, as_json: bool) -> Iterator[CliContext]:
    """Say what is done, and open the session of the options. Errors are printed, and become exit codes."""
    out, settings = Printer(as_json), settings_of(conf)
    with reported(out), ExitStack() as stack:
        with out.doing(CONNECTING if remote else STARTING):
            spark = stack.enter_context(opened(remote, settings))
        yield CliContext(spark, out)


@contextmanager
def reported(out: Printer, at: str | None = None) -> Iterator[None]:
    """Print an error of Spark's or ours instead of a traceback, and end the process by its exit code."""
    try:
        yield
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as error:
        from streamtable.errors import NotEnabled
        from streamtable.hosts.cli.failures import ERRORS_OF_SPARK, NO_JAVA, ended

        if not isinstance(error, (*ERRORS_OF_SPARK, *NO_JAVA)):
            raise
        end = error if isinstance(error, NotEnabled) else ended(error)
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
