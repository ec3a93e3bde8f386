"""The console: the states of stream tables, and actions on them, as pages of a browser."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from streamtable.errors import NotEnabled
from streamtable.hosts.session import enable

if TYPE_CHECKING:
    from streamtable.hosts.console.serve import Console
    from streamtable.schedule.loop import Scheduler

__all__ = ["INSTALL", "LOOPBACK", "console", "is_installed", "listening"]

INSTALL = "pip install 'streamtable[console]'"
LOOPBACK = "127.0.0.1"


def is_installed() -> bool:
    """Tell whether the packages of the console are installed."""
    return all(find_spec(each) for each in ("jinja2", "pygments", "starlette", "uvicorn"))


def console(spark: SparkSession, *, port: int = 0, scheduler: Scheduler | None = None, read_only: bool = False) -> Console:
    """Show the session's stream tables in a browser, until `stop()`: on loopback, at a free port unless one is given.

    print(console(spark).link())  # an address that lets one browser in, once

    Refreshes of `scheduler` are shown as well. Raises NotEnabled without the packages, and for a port that is taken.
    """
    enable(spark)
    door = listening(port)
    from streamtable.hosts.console.serve import serve

    return serve(spark, door, scheduler, read_only=read_only)


def listening(port: int) -> socket.socket:
    """Take a port of loopback for a console. Raises NotEnabled without the packages, and for a port that is taken."""
    if not is_installed():
        raise NotEnabled("the packages of the console are not installed", hint=INSTALL)
    try:
        return socket.create_server((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        raise NotEnabled(f"the console cannot listen on {LOOPBACK}:{port}: {error}", hint="choose another port") from error
