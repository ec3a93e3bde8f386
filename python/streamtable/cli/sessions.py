"""The session behind a command: one of its own, or that of a server; and what goes wrong on the way there."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from streamtable.configuration import load
from streamtable.delta.bridge import causes, java_exception
from streamtable.errors import NotEnabled
from streamtable.jvm_output import jvm_output
from streamtable.session import configure

__all__ = ["connected", "local", "opened", "silence"]

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.app.name": "streamtable",
}

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
"""They write errors to stderr, as JSON with stack traces; what is in them is in the exceptions as well."""

WORDS_OF_JAVA = 15
CONNECT_PORT, SECONDS_TO_ANSWER = 15002, 10


def silence() -> None:
    """Keep these loggers from telling each error a second time."""
    for name in LOGGERS:  # by this class, or Spark would meet a logger that does not understand it
        PySparkLogger.getLogger(name).disabled = True


@contextmanager
def opened(remote: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Give a session and end it afterwards. Raises NotEnabled where none can be had."""
    spark = connected(remote) if remote else local(conf)
    try:
        yield spark
    finally:
        spark.stop()


def local(conf: Mapping[str, str], *, quiet: bool = True) -> SparkSession:
    """Start Spark in this process, on the catalog of the current folder unless the settings say otherwise.

    If `quiet`, what Java prints is shown only when it does not start.
    """
    builder = configure(SparkSession.builder)
    given: dict[str, bool | float | int | str | None] = {**QUIET, **load().spark, **conf}
    with TemporaryDirectory(prefix="streamtable-") as folder:
        log = Path(folder, "jvm.log")
        with jvm_output(log) if quiet else nullcontext():
            found = _started(builder.config(map=given))
        if isinstance(found, SparkSession):
            return found
        # Java's own words are many, and needed only where we do not know better.
        said = log.read_text(encoding="utf-8", errors="replace").strip() if quiet else ""
        raise _not_started(found, "\n".join(said.splitlines()[-WORDS_OF_JAVA:])) from found


def _started(builder: SparkSession.Builder) -> SparkSession | Exception:
    """Return the session, or what went wrong: raised later, when Java's output is no longer kept away."""
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


def _not_started(error: Exception, said: str) -> NotEnabled:
    if isinstance(error, NotEnabled):
        return error
    text = "\n".join((str(error), *(str(cause) for cause in causes(java_exception(error)))))
    if "Failed to start database" in text:  # Derby's own reason comes after the text
        return NotEnabled(
            f"another process uses the catalog in {Path.cwd()}, and the embedded metastore serves one process at a time",
            hint="end the other one; or let it be a server (streamtable server), and connect to it by --remote sc://localhost:15002",
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
