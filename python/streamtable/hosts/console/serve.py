"""The console's own port, in threads of a process that has a Spark session."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from threading import Thread
from typing import TYPE_CHECKING, final

import uvicorn
from pyspark.sql import SparkSession

from streamtable.hosts.console.access import Doors, Users
from streamtable.hosts.console.board import Board
from streamtable.hosts.console.connection import Connection
from streamtable.hosts.console.hands import SparkHands
from streamtable.hosts.console.pages import application

if TYPE_CHECKING:
    from streamtable.schedule.loop import Scheduler

__all__ = ["Console", "serve"]

SECONDS_TO_END = 2
MOST_AT_ONCE = 200


@final
class Console:
    """A console that answers until it is stopped; made by `streamtable.console`."""

    def __init__(self, board: Board, doors: Doors, listening: socket.socket, names: Sequence[str] = ()) -> None:
        self._board, self._doors = board, doors
        host, port = listening.getsockname()[:2]
        self._address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
        # Cookies know no ports: two consoles of one machine must not take each other's.
        app = application(board, doors, f"streamtable_console_{port}", names)
        self._server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                ws="none",
                http=Connection,
                loop="asyncio",
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MOST_AT_ONCE,
                timeout_graceful_shutdown=SECONDS_TO_END,
            )
        )
        self._listening = listening
        self._thread = Thread(target=self._server.run, args=([listening],), name="streamtable console", daemon=True)

    def start(self) -> Console:
        """Answer from now on."""
        self._board.start()
        self._thread.start()
        return self

    @property
    def address(self) -> str:
        """Return where it answers."""
        return self._address

    def link(self) -> str:
        """Return an address that admits one browser, once, or the plain address if people log in with a password."""
        return self._address if self._doors.users else f"{self._address}?token={self._doors.link()}"

    def stop(self) -> None:
        """Stop answering. Running work goes on to its end."""
        self._board.stop()
        self._server.should_exit = True
        self._thread.join(SECONDS_TO_END + 3)
        self._listening.close()

    def _repr_html_(self) -> str:
        return f'<a href="{self._address}" target="_blank" rel="noopener">console</a> (let yourself in by <code>.link()</code>)'


def serve(
    spark: SparkSession,
    listening: socket.socket,
    scheduler: Scheduler | None = None,
    users: Users | None = None,
    names: Sequence[str] = (),
    read_only: bool = False,
) -> Console:
    """Start the console of a session, which answers at a socket that listens."""
    return Console(Board(SparkHands(spark, scheduler), read_only), Doors(users), listening, names).start()
