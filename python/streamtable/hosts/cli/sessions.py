"""The session of a command: one of its own, or a server's."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from streamtable.hosts.cli.failures import NO_JAVA
from streamtable.hosts.session import configure
from streamtable.hosts.start import not_started, started
from streamtable.jvm.output import jvm_output
from streamtable.sessions.remote import connected
from streamtable.settings.server_file import load

__all__ = ["local", "opened", "silence"]

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.app.name": "streamtable",
}

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
"""Loggers that write errors to stderr, as JSON with stack traces. The exceptions hold the same."""

WORDS_OF_JAVA = 15


def silence() -> None:
    """Keep these loggers from telling each error a second time."""
    for name in LOGGERS:  # by this class, or Spark would meet a logger that does not understand it
        PySparkLogger.getLogger(name).disabled = True
    logging.getLogger().addFilter(_not_of_py4j)
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]")


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Match py4j's messages in the root logger about the end of Java, and about interrupts."""
    return "py4j" not in record.pathname


@contextmanager
def opened(remote: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session, and end it afterwards. Raises NotEnabled if there is none."""
    spark = connected(remote) if remote else local({**load().spark, **conf})
    try:
        yield spark
    finally:
        with suppress(*NO_JAVA):  # what there was to say of it has been said
            spark.stop()


def local(conf: Mapping[str, str], *, quiet: bool = True) -> SparkSession:
    """Start Spark in this process, on the catalog of the current folder unless the settings say otherwise.

    If `quiet`, Java's output is shown only if it does not start.
    """
    # With this variable PySpark would make a client, and refuse spark.master; the option --remote has read it before.
    os.environ.pop("SPARK_REMOTE", None)
    builder = configure(SparkSession.builder)
    Thread(target=_prepare, name="streamtable preparation", daemon=True).start()
    given: dict[str, bool | float | int | str | None] = {**QUIET, **conf}
    with TemporaryDirectory(prefix="streamtable-") as folder:
        log = Path(folder, "jvm.log")
        with jvm_output(log) if quiet else nullcontext():
            found = started(builder.config(map=given))
        if isinstance(found, SparkSession):
            return found
        # Java's own words are many, and needed only where we do not know better.
        said = log.read_text(encoding="utf-8", errors="replace").strip() if quiet else ""
        raise not_started(found, "\n".join(said.splitlines()[-WORDS_OF_JAVA:])) from found


def _prepare() -> None:
    """Import what the first statement needs and make the parser, while Java starts: together a second or two."""
    import streamtable.statements.dispatch  # noqa: F401
    from streamtable.language.parse import parse

    parse("SHOW STREAM TABLES")
