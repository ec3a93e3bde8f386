"""The commands. Each opens a session, issues statements, and prints their answers."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import Row
from rich.live import Live

from streamtable.hosts.cli.doctor import examined
from streamtable.hosts.cli.graph import GraphFormat, drawn, graph_of, rows_of
from streamtable.hosts.cli.options import (
    Accept,
    AsJson,
    CliContext,
    Conf,
    Fix,
    Limit,
    Remote,
    TableName,
    cli_context,
    reported,
    settings_of,
)
from streamtable.hosts.cli.output import ExitCode, Printer, table_of
from streamtable.hosts.cli.serving import add_user, console, server
from streamtable.hosts.cli.starting import demo, init, settings
from streamtable.hosts.cli.subscribing import subscribe
from streamtable.hosts.cli.transfer import exported
from streamtable.language.scripts import Piece, split
from streamtable.sql.literals import closed, quote_full_name

__all__ = ["app"]

EXIT_CODES = "Exit codes: 0 done; 1 a statement failed; 2 wrong use; 3 no session; 4 a table is not exact; 130 interrupted."

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=f"Declarative, incrementally maintained tables for Spark SQL on Delta Lake.\n\n{EXIT_CODES}",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(init)
app.command()(settings)
app.command()(server)
app.command()(console)
app.command()(add_user)
app.command()(subscribe)


@app.command()
def run(
    file: Annotated[Path | None, typer.Argument(help="A script, or a SQL notebook of Databricks; - is the standard input.")] = None,
    execute: Annotated[str | None, typer.Option("-e", "--execute", metavar="SQL", help="Statements to run.")] = None,
    keep_going: Annotated[bool, typer.Option("--keep-going", "-k", help="Go on after a statement that fails.")] = False,
    limit: Limit = 1000,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Run the statements of a file, until one fails.

    streamtable run -e "REFRESH STREAM TABLE sales_per_day"\n
    streamtable run nightly.sql --keep-going --remote sc://localhost:15002 --json
    """
    if (file is None) == (execute is None):
        raise typer.BadParameter("give either a FILE or -e SQL")
    with reported(Printer(as_json)):
        pieces = split(execute if execute is not None else _read(file))
    with cli_context(remote, conf, as_json) as context:
        done = [_answered(context, piece, limit, keep_going) for piece in pieces]
    if not all(done):
        raise typer.Exit(ExitCode.FAILED)


def _answered(context: CliContext, piece: Piece, limit: int, keep_going: bool) -> bool:
    """Run a statement, and return whether it succeeded, where that does not end the command."""
    try:
        with reported(context.out, at=f"line {piece.line}"):
            context.out.answer(context.spark, piece.sql, limit)
    except typer.Exit as end:
        if not keep_going or end.exit_code != ExitCode.FAILED:
            raise
        return False
    return True


def _read(file: Path | None) -> str:
    if file is None or str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}") from None


@app.command()
def sql(limit: Limit = 100, remote: Remote = None, conf: Conf = None, as_json: AsJson = False) -> None:
    """Type statements and see their answers; Tab completes, the history is kept.

    streamtable sql --remote sc://localhost:15002
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter("this needs a terminal; for a script there is: streamtable run -")
    from streamtable.hosts.cli.shell import interact

    with cli_context(remote, conf, as_json) as context:
        interact(context.spark, context.out, limit)


STATUS = ("name", "status", "refresh_mode", "schedule", "last_action", "version", "staleness_seconds", "stale", "error")


@app.command()
def status(
    watch: Annotated[float | None, typer.Option("--watch", min=0.5, metavar="SECONDS", help="Look again and again.")] = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show all stream tables.

    streamtable status --watch 2 --remote sc://localhost:15002
    """
    with cli_context(remote, conf, as_json) as context:
        if watch is None:
            context.out.rows(STATUS, _status(context))
            return
        live = None if as_json else Live(console=context.out.console, auto_refresh=False)
        with live or nullcontext():
            while True:
                if live:
                    live.update(table_of(STATUS, _status(context)), refresh=True)
                else:
                    context.out.rows(STATUS, _status(context))
                    context.out.flush()
                time.sleep(watch)


def _status(context: CliContext) -> list[Row]:
    return context.spark.sql("SELECT * FROM stream_tables() ORDER BY name").select(*STATUS).collect()


@app.command()
def refresh(
    name: TableName,
    full: Annotated[bool, typer.Option("--full", help="Compute everything anew.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="First refresh the stream tables that it reads.")] = False,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Bring a stream table to the latest versions of its sources.

    streamtable refresh sales_per_day --cascade
    """
    with cli_context(remote, conf, as_json) as context:
        with context.out.waiting(context.spark):
            done = context.tables.at(name).refresh(full=full, cascade=cascade)
        _print(context, [done])


@app.command()
def history(
    name: Annotated[str | None, typer.Argument(help="The stream table; all of them without a name.")] = None,
    limit: Limit = 20,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show past refreshes, the latest first.

    streamtable history sales_per_day --limit 5
    """
    with cli_context(remote, conf, as_json) as context:
        _print(context, context.tables.at(name).history(limit) if name else context.tables.history(limit))


@app.command()
def explain(
    name: TableName,
    delta: Annotated[bool, typer.Option("--delta", help="Show the SQL of a refresh as well.")] = False,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show how each operator of the query is maintained.

    streamtable explain sales_per_day --delta
    """
    with cli_context(remote, conf, as_json) as context:
        _print(context, context.tables.at(name).explain(delta=delta))


@app.command()
def verify(
    names: Annotated[list[str] | None, typer.Argument(help="Stream tables; all of them without a name.")] = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Have Spark evaluate the queries and compare; exit code 4 when a table is not exact.

    streamtable verify sales_per_day sales_per_region
    """
    with cli_context(remote, conf, as_json) as context:
        with context.out.waiting(context.spark):
            asked = names or [quote_full_name(each.name) for each in context.tables.list_all()]
            verdicts = [context.tables.at(name).verify() for name in asked]
        _print(context, verdicts)
        if not all(verdict.ok for verdict in verdicts):
            raise typer.Exit(ExitCode.NOT_EXACT)


@app.command()
def graph(
    form: Annotated[GraphFormat, typer.Option("--format", "-f", help="How to draw.")] = GraphFormat.TEXT,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Draw who reads whom.

    streamtable graph --format svg > tables.svg
    """
    with cli_context(remote, conf, as_json) as context:
        found = graph_of(context.tables.dependencies(), (each.name for each in context.tables.list_all()))
        if as_json:
            context.out.rows(("name", "source", "kind"), rows_of(found))
        else:
            context.out.text(drawn(found, form))


@app.command()
def export(remote: Remote = None, conf: Conf = None, as_json: AsJson = False) -> None:
    """Print the statements that make all stream tables anew, sources before readers.

    streamtable export > stream_tables.sql
    """
    with cli_context(remote, conf, as_json) as context:
        statements = list(exported(context.spark))
        if as_json:
            context.out.json(statements)
        else:
            context.out.text("\n\n".join(f"{closed(statement)};" for statement in statements))


@app.command("import")
def import_(file: Path, remote: Remote = None, conf: Conf = None, as_json: AsJson = False) -> None:
    """Make the stream tables of an export; their sources have to be there.

    streamtable import stream_tables.sql --remote sc://localhost:15002
    """
    run(file, remote=remote, conf=conf, as_json=as_json)


@app.command()
def doctor(remote: Remote = None, conf: Conf = None, fix: Fix = False, accept: Accept = False, as_json: AsJson = False) -> None:
    """Look for what is missing or was left half done, and say how to put it right; exit code 3 when something is.

    streamtable doctor --conf spark.master=spark://cluster:7077
    streamtable doctor --fix
    """
    out = Printer(as_json)
    checks = []
    for check in examined(remote, settings_of(conf), fix, accept):
        checks.append(check)
        if not as_json:
            out.text(f"{'ok' if check.ok else 'WRONG':5}  {check.name:9}  {check.found}")
            if not check.ok:
                out.text(f"       what to do: {check.remedy}")
    if as_json:
        out.json([vars(check) for check in checks])
    if not all(check.ok for check in checks):
        raise typer.Exit(ExitCode.NO_SESSION)


def _print(context: CliContext, answers: Iterable[object]) -> None:
    """Print dataclasses of one kind by their fields."""
    rows = [vars(answer) for answer in answers]
    context.out.rows(list(rows[0]) if rows else [], [tuple(row.values()) for row in rows])
