"""The session behind a command: one of its own, or that of a server."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from streamtable.configuration import load
from streamtable.jvm_output import jvm_output
from streamtable.opening import not_started, started
from streamtable.remote import connected
from streamtable.session import configure

__all__ = ["local", "opened", "silence"]

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.app.name": "streamtable",
}

LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging")
"""They write errors to stderr, as JSON with stack traces; what is in them is in the exceptions as well."""

WORDS_OF_JAVA = 15


def silence() -> None:
    """Keep these loggers from telling each error a second time."""
    for name in LOGGERS:  # by this class, or Spark would meet a logger that does not understand it
        PySparkLogger.getLogger(name).disabled = True


@contextmanager
def opened(remote: str | None, conf: Mapping[str, str]) -> Iterator[SparkSession]:
    """Give a session and end it afterwards. Raises NotEnabled where none can be had."""
    spark = connected(remote) if remote else local({**load().spark, **conf})
    try:
        yield spark
    finally:
        spark.stop()


def local(conf: Mapping[str, str], *, quiet: bool = True) -> SparkSession:
    """Start Spark in this process, on the catalog of the current folder unless the settings say otherwise.

    If `quiet`, what Java prints is shown only when it does not start.
    """
    # With this variable PySpark would make a client, and refuse spark.master; the option --remote has read it before.
    os.environ.pop("SPARK_REMOTE", None)
    builder = configure(SparkSession.builder)
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
