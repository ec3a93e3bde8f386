"""Sessions of servers, over Spark Connect, and plain errors for servers that cannot be reached."""

from __future__ import annotations

import socket
from collections.abc import Callable
from threading import Lock
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession

from streamtable.errors import NotEnabled

__all__ = ["ask", "connected", "unanswered", "without_token"]

_PORT, _SECONDS_TO_ANSWER = 15002, 10

_sessions: dict[str, SparkSession] = {}
_lock = Lock()


def connected(remote: str, opened: Callable[[str], SparkSession] | None = None) -> SparkSession:
    """Connect to a server. By default the session becomes the session of the whole process. Raises NotEnabled."""
    try:
        # By itself, the client tries for ten minutes before it says that nobody is there.
        url = urlsplit(remote)
        socket.create_connection((url.hostname or "", url.port or _PORT), timeout=_SECONDS_TO_ANSWER).close()
        spark = opened(remote) if opened else SparkSession.builder.remote(remote).create()
        _give_up_soon(spark)
        spark.sql("SELECT 1").collect()
    except Exception as error:  # of the network, grpc's errors, those of the client library, and of a URL that is none
        raise _not_connected(remote, error) from error
    return spark


def ask(remote: str, statement: str) -> list[Row]:
    """Run a statement at a server, in a session beside the session of this process. Raises AnalysisException and NotEnabled.

    A process keeps one such session per server. After a restart of the server it opens a new one.
    """
    with _lock:
        while True:
            fresh = remote not in _sessions
            if fresh:
                _sessions[remote] = connected(remote, _beside)
            try:
                return _sessions[remote].sql(statement).collect()
            except AnalysisException:
                raise
            except Exception as error:  # as above
                del _sessions[remote]
                if fresh:
                    raise _not_connected(remote, error) from error


def unanswered(error: BaseException) -> bool:
    """Tell whether a server's session is gone, or no server answers. Errors of a statement are of a subclass."""
    if not isinstance(error, PySparkException):
        return False
    gone = (error.getCondition() or "").startswith("INVALID_HANDLE.SESSION_")
    # UNKNOWN is what a server says that stops just now.
    code = error.getGrpcStatusCode().name if type(error).__name__ == "SparkConnectGrpcException" else None  # type: ignore[attr-defined]
    return gone or code in ("UNAVAILABLE", "UNKNOWN")


def without_token(remote: str) -> str:
    """Return the address without its parameters, which may hold a token."""
    return remote.partition(";")[0]


def _beside(remote: str) -> SparkSession:
    """Open a session that does not become the session of this process, unlike a builder's."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    return RemoteSession(remote)  # type: ignore[return-value]


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
            hint="give it in the URL: sc://localhost:15002/;token=... (with the name localhost, or the client insists on TLS); "
            "in the CONNECTION of a subscription, name the file that holds it: token_file=/path",
        )
    if "UNAVAILABLE" in text or isinstance(error, OSError):
        return NotEnabled(f"nobody answers at {where}", hint="start a server there (streamtable server), and check host and port")
    return NotEnabled(f"{where} cannot be used: {text.splitlines()[0]}", hint="a URL looks like sc://localhost:15002")
