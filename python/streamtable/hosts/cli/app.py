"""The commands. Each opens a session, issues statements, and prints their answers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from streamtable.hosts.cli.options import (
    AsJson,
    CliContext,
    Conf,
    GraphFormat,
    Limit,
    Remote,
    Schemas,
    TableName,
    cli_context,
    reported,
)
from streamtable.hosts.cli.output import ExitCode, Printer
from streamtable.hosts.cli.scripts import deploy, export, import_, run, sql, uninstall
from streamtable.hosts.cli.serving import add_user, console, server
from streamtable.hosts.cli.starting import demo, doctor, init, settings
from streamtable.hosts.cli.subscribing import subscribe

if TYPE_CHECKING:
    from streamtable.api.answers import Verdict

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
app.command()(doctor)
app.command()(server)
app.command()(console)
app.command()(add_user)
app.command()(subscribe)
app.command()(run)
app.command()(sql)
app.command()(export)
app.command()(deploy)
app.command()(uninstall)
app.command("import")(import_)


def _version(asked: bool) -> None:
    if asked:
        from streamtable.hosts.cli.versions import versions

        ours, *others = (f"{name} {version or 'not installed'}" for name, version in versions().items())
        Printer(as_json=False).text(f"{ours} ({', '.join(others)})")
        raise typer.Exit


@app.callback()
def _streamtable(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the versions, and end.")
    ] = False,
) -> None:
    pass


_STATUS = "SELECT * FROM stream_tables() ORDER BY name"


@app.command()
def status(
    watch: Annotated[float | None, typer.Option("--watch", min=0.5, metavar="SECONDS", help="Look again and again.")] = None,
    schema: Schemas = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show all stream tables.

    streamtable status --watch 2 --remote sc://localhost:15002
    """
    with cli_context(remote, conf, as_json) as context:
        from rich.console import Group
        from rich.live import Live
        from rich.text import Text

        from streamtable.hosts.cli.status import STATUS, status_of

        inside = context.within(schema)
        live = None if as_json or watch is None else Live(console=context.out.console, auto_refresh=False)
        with live or nullcontext():
            while True:
                rows = [row for row in context.spark.sql(_STATUS).select(*STATUS).collect() if inside(row["name"])]
                now = datetime.now().astimezone()
                if as_json:
                    context.out.rows(STATUS, rows)
                    context.out.flush()
                else:
                    shown = status_of(rows, now, context.out.console.width)
                    if live and watch:
                        live.update(Group(Text(watched_at(now, watch), style="dim"), shown), refresh=True)
                    else:
                        context.out.console.print(shown)
                if watch is None:
                    return
                time.sleep(watch)


def watched_at(now: datetime, every: float) -> str:
    """Return the heading of what `--watch` shows."""
    return f"every {every:g} s, last at {now:%Y-%m-%d %H:%M:%S %Z}"


@app.command()
def refresh(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Stream tables, written as in SQL.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All stream tables but those that are suspended.")] = False,
    stale: Annotated[bool, typer.Option("--stale", help="Those whose sources changed, and those that read them.")] = False,
    schema: Schemas = None,
    full: Annotated[bool, typer.Option("--full", help="Compute everything anew.")] = False,
    cascade: Annotated[bool, typer.Option("--cascade", help="First refresh the stream tables that they read.")] = False,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Bring stream tables to the latest versions of their sources, sources before readers; the first that fails ends it.

    streamtable refresh sales_per_day --cascade\n
    streamtable refresh --stale --schema shop
    """
    if [bool(names), everything, stale].count(True) != 1:
        raise typer.BadParameter("give NAMEs of stream tables, or --all, or --stale")
    _names_or_schemas(names, schema)
    with cli_context(remote, conf, as_json) as context:
        from streamtable.hosts.cli.selection import to_refresh

        with context.out.waiting(context.spark):
            asked, skipped = (names, []) if names else to_refresh(context.spark, context.within(schema), stale)
            done = [*context.tables.refresh(asked, full=full, cascade=cascade), *skipped]
        _print(context, done)
        if not done:
            context.out.note("no stream table is stale" if stale else "there is no stream table")


@app.command()
def history(
    name: Annotated[str | None, typer.Argument(help="The stream table; all of them without a name.")] = None,
    schema: Schemas = None,
    limit: Limit = 20,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show past refreshes, the latest first.

    streamtable history sales_per_day --limit 5
    """
    _names_or_schemas(name, schema)
    with cli_context(remote, conf, as_json) as context:
        if name:
            _print(context, context.tables.at(name).history(limit))
        else:
            inside = context.within(schema)
            found = context.tables.history(None if schema else limit)
            _print(context, [past for past in found if inside(past.name)][:limit])


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
    schema: Schemas = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Have Spark evaluate the queries and compare; exit code 4 when a table is not exact. One that fails stops no other.

    streamtable verify sales_per_day sales_per_region
    """
    _names_or_schemas(names, schema)
    with cli_context(remote, conf, as_json) as context:
        from streamtable.sql.literals import quote_full_name

        with context.out.waiting(context.spark):
            inside = context.within(schema)
            asked = names or [quote_full_name(each.name) for each in context.tables.list_all() if inside(each.name)]
            verdicts = [_verdict(context, name) for name in asked]
        known = [verdict for verdict in verdicts if verdict]
        _print(context, known)
        if not all(verdict.ok for verdict in known):
            raise typer.Exit(ExitCode.NOT_EXACT)
        if len(known) < len(verdicts):
            raise typer.Exit(ExitCode.FAILED)


def _verdict(context: CliContext, name: str) -> Verdict | None:
    """Verify a table; print why that fails, unless the session is gone, which ends the command."""
    try:
        with reported(context.out, at=name):
            return context.tables.at(name).verify()
    except typer.Exit as failed:
        if failed.exit_code != ExitCode.FAILED:
            raise
    return None


@app.command()
def graph(
    form: Annotated[GraphFormat, typer.Option("--format", "-f", help="How to draw.")] = GraphFormat.TEXT,
    schema: Schemas = None,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Draw who reads whom.

    streamtable graph --format svg > tables.svg
    """
    with cli_context(remote, conf, as_json) as context:
        import networkx as nx

        from streamtable.hosts.cli.graph import drawn, graph_of, rows_of
        from streamtable.hosts.words import short

        inside = context.within(schema)
        edges = (each for each in context.tables.dependencies() if inside(each.name))
        found = graph_of(edges, (each.name for each in context.tables.list_all() if inside(each.name)))
        if as_json:
            context.out.rows(("name", "source", "kind"), rows_of(found))
        else:
            context.out.text(drawn(nx.relabel_nodes(found, short), form))


def _names_or_schemas(names: object, schemas: object) -> None:
    if names and schemas:
        raise typer.BadParameter("a NAME has its schema before it: schema.table", param_hint="--schema")


def _print(context: CliContext, answers: Iterable[object]) -> None:
    """Print dataclasses of one kind by their fields; people know the catalog that all stream tables are in."""
    from streamtable.hosts.words import short

    rows = [vars(answer) for answer in answers]
    if not context.out.as_json:
        rows = [{key: short(value) if key == "name" else value for key, value in row.items()} for row in rows]
    context.out.rows(list(rows[0]) if rows else [], [tuple(row.values()) for row in rows])
