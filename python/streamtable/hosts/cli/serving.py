"""The commands around the server."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtable.hosts.cli.options import STARTING, AsJson, CliContext, Conf, cli_context, reported, settings_of
from streamtable.hosts.cli.output import Printer

if TYPE_CHECKING:
    import socket

    from streamtable.hosts.server.stopping import Stopping

__all__ = ["add_user", "console", "server"]

File = Annotated[Path | None, typer.Option("--config", help="The settings; streamtable.toml if it is there.")]


def server(
    config: File = None,
    host: Annotated[str | None, typer.Option(help="The address on which all end points listen.")] = None,
    thrift_port: Annotated[int | None, typer.Option(help="JDBC and ODBC; 0 takes a free port, -1 leaves it out.")] = None,
    connect_port: Annotated[int | None, typer.Option(help="Spark Connect.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Prometheus.")] = None,
    console_port: Annotated[int | None, typer.Option(help="The console.")] = None,
    console_hosts: Annotated[str | None, typer.Option(help="Names under which browsers ask for it, separated by commas.")] = None,
    console_read_only: Annotated[bool | None, typer.Option("--console-read-only", help="A console without buttons.")] = None,
    users: Annotated[str | None, typer.Option(help="The file of users and passwords for Thrift.")] = None,
    token_file: Annotated[str | None, typer.Option(help="The file of the token for Spark Connect.")] = None,
    allow_anonymous: Annotated[bool | None, typer.Option("--allow-anonymous", help="Let anybody in, also beyond loopback.")] = None,
    allow: Annotated[str | None, typer.Option(help="What clients may use beyond tables: code, files, sources, settings.")] = None,
    paths: Annotated[str | None, typer.Option(help="Folders that clients may use by path, separated by commas.")] = None,
    scheduler: Annotated[bool | None, typer.Option(help="Refresh by the schedules.")] = None,
    stop_seconds: Annotated[float | None, typer.Option(help="How long the server may take to end.")] = None,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Serve JDBC, Spark Connect, metrics, the console and the schedules in one process, until SIGTERM or Ctrl-C.

    Options win over streamtable.toml. It says when it is ready, and where.

    streamtable server --thrift-port 10001 --conf spark.driver.memory=4g
    """
    out = Printer(as_json)
    out.announce(STARTING)
    with reported(out):
        from streamtable.hosts.cli.sessions import local
        from streamtable.hosts.server.endpoints import with_options
        from streamtable.hosts.server.serve import serve
        from streamtable.settings.server_file import exposed, load

        found = load(config)
        options = {
            "host": host,
            "thrift_port": thrift_port,
            "connect_port": connect_port,
            "metrics_port": metrics_port,
            "console_port": console_port,
            "console_hosts": console_hosts,
            "console_read_only": console_read_only,
            "users": users,
            "token_file": token_file,
            "allow_anonymous": allow_anonymous,
            "allow": allow,
            "paths": paths,
            "scheduler": scheduler,
            "stop_seconds": stop_seconds,
        }
        server = with_options(found.server, options)
        for file in exposed(replace(found, server=server), config):
            out.note(f"everybody on this machine can read {file}, which holds secrets: chmod 600 {file}")
        serve(
            server,
            {**found.spark, **settings_of(conf)},
            lambda settings: local(settings, quiet=False),
            lambda addresses: _ready(out, addresses),
        )


def console(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port on this machine; 0 takes a free one.")] = 0,
    scheduler: Annotated[bool, typer.Option("--scheduler", help="Refresh by the schedules as well.")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show no buttons.")] = False,
    conf: Conf = None,
    as_json: AsJson = False,
) -> None:
    """Show the stream tables in a browser, until SIGTERM or Ctrl-C: a session of its own, on the catalog of the current folder.

    A server has a console of its own: see console_port in [server].

    streamtable console --port 9465
    """
    out = Printer(as_json)
    with reported(out), ExitStack() as stack:
        with out.doing(STARTING):
            from streamtable.hosts.console import listening
            from streamtable.hosts.server.stopping import Stopping

            door = listening(port)  # what is wrong with it is told before Spark starts
            stack.callback(door.close)
        context = stack.enter_context(cli_context(None, conf, as_json))
        stopping = Stopping()
        stopping.listen()
        _show(context, door, stopping, scheduler, read_only, stack)


def _show(context: CliContext, door: socket.socket, stopping: Stopping, scheduler: bool, read_only: bool, stack: ExitStack) -> None:
    from streamtable.hosts.console.serve import serve as open_console
    from streamtable.hosts.server.serve import for_refreshes, wait
    from streamtable.hosts.session import start_scheduler
    from streamtable.settings.server_file import ServerSettings

    refreshing = start_scheduler(context.spark) if scheduler else None
    if refreshing:
        stack.callback(refreshing.stop, for_refreshes(ServerSettings().stop_seconds))
    opened = open_console(context.spark, door, refreshing, read_only=read_only)
    stack.callback(opened.stop)
    if context.out.as_json:
        context.out.json({"ready": True, "console": opened.link()})
    else:
        context.out.text(f"the console lets one browser in at\n  {opened.link()}\nCtrl-C ends it")
    context.out.flush()
    wait(context.spark, stopping)
    stopping.let_go()


def add_user(
    name: Annotated[str, typer.Argument(help="The name to log in with.")],
    users: Annotated[Path, typer.Option(help="The file, which is made if need be.")] = Path("users.txt"),
    password: Annotated[
        str, typer.Option(prompt=True, confirmation_prompt=True, hide_input=True, help="Asked for if it is not given here.")
    ] = "",
    viewer: Annotated[
        bool | None,
        typer.Option("--viewer/--no-viewer", help="Let the user look at the console, and do nothing else; as before if not said."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a user and the hash of the password into the file that the server's setting `users` names.

    streamtable add-user ada --users users.txt
    streamtable add-user ben --viewer
    """
    from streamtable.hosts.roles import Role
    from streamtable.hosts.server.passwords import add_user as add

    out = Printer(as_json)
    with reported(out):
        role = add(users, name, password, None if viewer is None else Role.VIEWER if viewer else Role.FULL)
        if as_json:
            out.json({"user": name, "users": str(users), "role": role.value})
        else:
            out.text(f"{name} is in {users}{' as a viewer' if role is Role.VIEWER else ''}")


def _ready(out: Printer, addresses: Mapping[str, str]) -> None:
    if out.as_json:
        out.json({"ready": True, **addresses})
    else:
        out.text("streamtable server is ready\n" + "\n".join(f"  {name:8} {address}" for name, address in addresses.items()))
    out.flush()
