"""Open a session, one of this process or that of a server; where there is none, say why in words for people."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from streamtable.delta.bridge import causes, java_exception
from streamtable.errors import NotEnabled

__all__ = ["connected", "not_started", "started"]

CONNECT_PORT, SECONDS_TO_ANSWER = 15002, 10


def started(builder: SparkSession.Builder) -> SparkSession | Exception:
    """Return the session, or what went wrong: `not_started` explains it, when Java's output is no longer kept away."""
    try:
        spark = builder.getOrCreate()
        spark.sql("SHOW DATABASES").collect()  # the catalog is opened by the first who asks
    except Exception as error:  # py4j and Spark have no common class for "did not start"
        return error
    return spark


def connected(remote: str) -> SparkSession:
    """Connect to a server by Spark Connect."""
    try:
        # By itself, the client tries for ten minutes before it says that nobody is there.
        url = urlsplit(remote)
        socket.create_connection((url.hostname or "", url.port or CONNECT_PORT), timeout=SECONDS_TO_ANSWER).close()
        spark = SparkSession.builder.remote(remote).create()
        spark.sql("SELECT 1").collect()
    except Exception as error:  # of the network, grpc's errors, those of the client library, and of a URL that is none
        raise _not_connected(remote, error) from error
    return spark


def not_started(error: Exception, said: str = "") -> NotEnabled:
    """Return what to raise for an error of `started`; `said` is what Java printed, if that was kept from the terminal."""
    if isinstance(error, NotEnabled):
        return error
    text = "\n".join((str(error), *(str(cause) for cause in causes(java_exception(error)))))
    if "Failed to start database" in text:  # Derby's own reason comes after the text
        return NotEnabled(
            f"another process uses the catalog in {Path.cwd()}, and the embedded metastore serves one process at a time",
            hint="end the other one; or let it be a server (streamtable server), and connect to it: by --remote, or by "
            "SPARK_REMOTE in a notebook, with sc://localhost:15002",
        )
    what = "Java" if "JAVA_GATEWAY_EXITED" in text else "Spark"
    return NotEnabled(f"{what} did not start: {error}\n{said}", hint="streamtable doctor looks for the cause")


def _not_connected(remote: str, error: Exception) -> NotEnabled:
    where = remote.partition(";")[0]  # parameters may hold a token
    text = str(error)
    if isinstance(error, ImportError):
        return NotEnabled(
            f"the client of Spark Connect is not complete: {text}", hint="pip install 'streamtable[connect]' brings what it needs"
        )
    if "UNAUTHENTICATED" in text or "Unauthenticated" in text:
        return NotEnabled(
            f"{where} asks for a token, or for another one",
            hint="give it in the URL: sc://localhost:15002/;token=... (with the name localhost, or the client insists on TLS)",
        )
    if "UNAVAILABLE" in text or isinstance(error, OSError):
        return NotEnabled(f"nobody answers at {where}", hint="start a server there (streamtable server), and check host and port")
    return NotEnabled(f"{where} cannot be used: {text.splitlines()[0]}", hint="a URL looks like sc://localhost:15002")
