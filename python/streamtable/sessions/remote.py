"""Sessions of servers, over Spark Connect, and plain errors for servers that cannot be reached."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession

from streamtable.errors import NotEnabled

if TYPE_CHECKING:
    from streamtable.sessions.link import Link

__all__ = ["ask", "connected", "unanswered", "without_token"]

_PORT, _SECONDS_TO_CONNECT = 15002, 10

REST = 60.0
"""So many seconds nobody asks a server that was silent: whatever else has to be done would wait for it each time."""

_STATUS = re.compile(r"StatusCode\.(\w+)")

_sessions: dict[str, _Session] = {}
"""The session beside that of this process, by server."""

_silent: dict[str, float] = {}
"""When a server was found silent, on the clock of `time.monotonic`."""


@dataclass(frozen=True, eq=False)
class _Session:
    spark: SparkSession
    link: Link


def connected(remote: str) -> SparkSession:
    """Connect to a server. The session becomes the session of the whole process. Raises NotEnabled."""
    session = _connected(remote, _of_this_process)
    session.link.let_statements_run()
    return session.spark


def ask(remote: str, statement: str) -> list[Row]:
    """Run a brief statement at a server, in a session beside the session of this process. Raises AnalysisException and NotEnabled.

    A process keeps one such session per server. After a restart of the server it opens a new one. A server that does not answer in
    time is silent, and is not asked again for a while.
    """
    if (stale := _sessions.get(remote)) is not None and not _rests(remote):
        with suppress(NotEnabled):
            return _answer(remote, stale, statement)
    if (left := _rests(remote)) > 0:
        hint = f"it is asked again in {left:.0f} seconds; see whether it runs, and what it said last"
        raise NotEnabled(f"nobody answers at {without_token(remote)}: it is silent", hint=hint)
    fresh = _connected(remote, _beside)
    if (kept := _sessions.setdefault(remote, fresh)) is not fresh:
        fresh.link.close()  # another thread was faster
    return _answer(remote, kept, statement)


def unanswered(error: BaseException) -> bool:
    """Tell whether a server's session is gone, or no server answers. Errors of a statement are of a subclass."""
    if not isinstance(error, PySparkException):
        return False
    gone = (error.getCondition() or "").startswith("INVALID_HANDLE.SESSION_")
    # UNKNOWN is what a server says that stops just now.
    return gone or _status(error) in ("UNAVAILABLE", "UNKNOWN")


def _status(error: BaseException) -> str | None:
    """Return grpc's code of an error of the network."""
    if type(error).__name__ != "SparkConnectGrpcException":
        return None
    if hasattr(error, "getGrpcStatusCode"):
        return str(error.getGrpcStatusCode().name)
    found = _STATUS.search(str(error))  # PySpark 4.0 has it in the text alone
    return found[1] if found else "UNKNOWN"


def _rests(remote: str) -> float:
    """Return the seconds until a silent server is asked again."""
    since = _silent.get(remote)
    return 0.0 if since is None else max(since + REST - time.monotonic(), 0.0)


def _answer(remote: str, session: _Session, statement: str) -> list[Row]:
    try:
        return session.spark.sql(statement).collect()
    except AnalysisException:
        raise
    except Exception as error:  # as below
        if _sessions.get(remote) is session:
            del _sessions[remote]
        session.link.close()
        raise _not_connected(remote, error) from error


def _connected(remote: str, opened: Callable[[Link], SparkSession]) -> _Session:
    session = None
    try:
        # By itself, the client tries for ten minutes before it says that nobody is there.
        url = urlsplit(remote)
        socket.create_connection((url.hostname or "", url.port or _PORT), timeout=_SECONDS_TO_CONNECT).close()
        from streamtable.sessions.link import Link

        link = Link(remote)
        session = _Session(opened(link), link)
        _give_up_soon(session.spark)
        session.spark.sql("SELECT 1").collect()
    except Exception as error:  # of the network, grpc's errors, those of the client library, and of a URL that is none
        if session is not None:
            session.link.close()
        raise _not_connected(remote, error) from error
    _silent.pop(remote, None)
    return session


def without_token(remote: str) -> str:
    """Return the address without its parameters, which may hold a token."""
    return remote.partition(";")[0]


def _of_this_process(link: Link) -> SparkSession:
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as the builder does that is given a URL
    return RemoteSession.builder.channelBuilder(link).create()  # type: ignore[return-value]


def _beside(link: Link) -> SparkSession:
    from streamtable.sessions.link import SessionBeside

    return SessionBeside(link)  # type: ignore[return-value]


def _give_up_soon(spark: SparkSession) -> None:
    """Retry a few times only. By default a lost server blocks the caller, and the exit of this process, for ten minutes."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    spark.client.set_retry_policies([DefaultPolicy(max_retries=3)])


def _not_connected(remote: str, error: Exception) -> NotEnabled:
    where, text = without_token(remote), str(error)
    if isinstance(error, ImportError):
        return NotEnabled(
            f"the client of Spark Connect is not complete: {text}", hint="pip install 'streamtable[connect]' brings what it needs"
        )
    if "UNAUTHENTICATED" in text or "Unauthenticated" in text:
        return NotEnabled(
            f"{where} asks for a token, or for another one",
            hint="give it in the URL: sc://localhost:15002/;token=... (with the name localhost, or the client insists on TLS), "
            "which the variable SPARK_REMOTE keeps off the command line; in the CONNECTION of a subscription, name the file that "
            "holds it: token_file=/path",
        )
    if _status(error) == "DEADLINE_EXCEEDED":
        _silent[remote] = time.monotonic()
        hint = "it takes connections and is silent: see whether it runs, and what it said last"
        return NotEnabled(f"nobody answers at {where}", hint=hint)
    if "UNAVAILABLE" in text or isinstance(error, OSError):
        return NotEnabled(f"nobody answers at {where}", hint="start a server there (streamtable server), and check host and port")
    return NotEnabled(f"{where} cannot be used: {text.splitlines()[0]}", hint="a URL looks like sc://localhost:15002")
