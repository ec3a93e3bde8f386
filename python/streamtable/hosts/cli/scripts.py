"""The commands around statements: run them from a file or from the command, type them, move definitions by a script of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtable.hosts.cli.options import AsJson, CliContext, Conf, Limit, Remote, Schemas, cli_context, reported
from streamtable.hosts.cli.output import ExitCode, Printer
from streamtable.hosts.cli.parameters import bound, parameters_of

if TYPE_CHECKING:
    from streamtable.language.scripts import Piece

__all__ = ["deploy", "export", "import_", "run", "sql", "uninstall"]

Param = Annotated[
    list[str] | None,
    typer.Option(
        "--param", "-p", metavar="NAME[:TYPE]=VALUE", help="The value of :NAME in the statements; text, if without a TYPE."
    ),
]


def run(
    file: Annotated[Path | None, typer.Argument(help="A script, or a SQL notebook of Databricks; - is the standard input.")] = None,
    execute: Annotated[str | None, typer.Option("-e", "--execute", metavar="SQL", help="Statements to run.")] = None,
    param: Param = None,
    keep_going: Annotated[bool, typer.Option("--keep-going", "-k", help="Go on after a statement that fails.")] = False,
    limit: Limit = 1000,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Run the statements of a file, until one fails.

    streamtable run -e "REFRESH STREAM TABLE sales_per_day"\n
    streamtable run nightly.sql --param day:date=2026-01-05 --param region=north\n
    streamtable run nightly.sql --keep-going --remote sc://localhost:15002 --json
    """
    if (file is None) == (execute is None):
        raise typer.BadParameter("give either a FILE or -e SQL")
    parameters = parameters_of(param)
    text = execute if execute is not None else _read(file)
    out = Printer(as_json)
    with reported(out), out.doing("reading the statements"):
        from streamtable.language.scripts import markers, split

        pieces = split(text)
        named = {piece: markers(piece.sql) for piece in pieces}
    if strange := parameters.keys() - set().union(*named.values()):
        raise typer.BadParameter(f"no statement has {', '.join(f':{name}' for name in sorted(strange))}", param_hint="--param")
    with cli_context(remote, conf, as_json) as context:
        values = bound(context.spark, parameters)
        done = [
            _answered(context, piece, {name: values[name] for name in values if name in named[piece]}, limit, keep_going)
            for piece in pieces
        ]
    if not all(done):
        raise typer.Exit(ExitCode.FAILED)


def _answered(context: CliContext, piece: Piece, args: Mapping[str, Any], limit: int, keep_going: bool) -> bool:
    """Run a statement, and return whether it succeeded, where that does not end the command."""
    try:
        with reported(context.out, at=f"line {piece.line}"):
            context.out.answer(context.spark, piece.sql, limit, args)
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


def sql(limit: Limit = 100, remote: Remote = None, conf: Conf = None, as_json: AsJson = False) -> None:
    r"""Type statements and see their answers; Tab completes, the history is kept, \? lists the commands of the shell.

    streamtable sql --remote sc://localhost:15002
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter("this needs a terminal; for a script there is: streamtable run -")
    with cli_context(remote, conf, as_json) as context:
        from streamtable.hosts.cli.shell import banner, interact

        context.out.note(banner(context.spark, remote))
        interact(context.spark, context.out, limit)


def export(schema: Schemas = None, remote: Remote = None, conf: Conf = None, as_json: AsJson = False) -> None:
    """Print the statements that make all stream tables anew, sources before readers.

    streamtable export > stream_tables.sql
    """
    with cli_context(remote, conf, as_json) as context:
        from streamtable.hosts.cli.transfer import exported
        from streamtable.sql.literals import closed

        statements = list(exported(context.spark, context.within(schema)))
        if as_json:
            context.out.json(statements)
        else:
            context.out.text("\n\n".join(f"{closed(statement)};" for statement in statements))


def import_(file: Path, remote: Remote = None, conf: Conf = None, as_json: AsJson = False) -> None:
    """Make the stream tables of an export; their sources have to be there.

    streamtable import stream_tables.sql --remote sc://localhost:15002
    """
    run(file, remote=remote, conf=conf, as_json=as_json)


def uninstall(
    yes: Annotated[bool, typer.Option("--yes", help="Drop them; without it they are only shown.")] = False,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Drop all stream tables, queues, publications, subscriptions and replication slots of a catalog. Ordinary tables stay.

    streamtable uninstall\n
    streamtable uninstall --yes
    """
    with cli_context(remote, conf, as_json) as context:
        from streamtable.hosts.cli.uninstall import DROPPED, removals, removed

        found = list(removals(context.spark))
        with context.out.waiting(context.spark):
            said = [removed(context.spark, each) if yes else each.sql for each in found]
        context.out.rows(
            ("kind", "name", "status" if yes else "statement"),
            [(each.kind, each.name, s) for each, s in zip(found, said, strict=True)],
        )
        if yes and any(each != DROPPED for each in said):
            raise typer.Exit(ExitCode.FAILED)
        if found and not yes:
            context.out.note("nothing was dropped; --yes drops them")


def deploy(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="A folder of .sql files with definitions.")],
    plan: Annotated[bool, typer.Option("--plan", help="Show what would be done, and do nothing.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Drop stream tables of the same schemas that no file defines.")] = False,
    remote: Remote = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Bring the stream tables of a catalog to the definitions in a folder; where a step is refused, no step is done.

    streamtable deploy tables/ --plan
    """
    with cli_context(remote, conf, as_json) as context:
        from streamtable.hosts.cli.deploy import Step, StepKind, allow, carried_out, planned
        from streamtable.hosts.cli.folder import wanted_in

        (namespace,) = context.spark.sql("SELECT current_catalog(), current_schema()").collect()
        steps = planned(context.spark, wanted_in(folder, tuple(namespace)), prune)
        unchanged = [step for step in steps if step.kind is StepKind.NOTHING]
        done = list[Step]()
        try:
            for step in steps if plan else chain(unchanged, carried_out(context.spark, steps)):
                done.append(step)
                if not as_json:
                    context.out.text(str(step))
        finally:
            if as_json:
                context.out.rows(
                    ("name", "kind", "why", "place"), [(each.name, each.kind.value, each.why, each.place) for each in done]
                )
        if plan:
            allow(steps)
