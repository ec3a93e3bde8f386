"""Start the JVM of a PySpark driver, on loopback if it is local, with the settings in a file that only its owner can read.

PySpark passes each setting to the JVM by `--conf`, where every user of the machine can read passwords, keys and tokens.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from pyspark import SparkContext

from streamtable.settings.spark import PROPERTIES_FILE, SUBMIT_ARGUMENTS, ambient_settings, as_properties, is_local, parted

__all__ = ["launch"]

ADDRESS, LOOPBACK = "SPARK_LOCAL_IP", "127.0.0.1"
"""The variable that says where Spark listens, its UI on all addresses without it."""


def launch(settings: Mapping[str, str]) -> None:
    """Start the JVM of this process with these settings, unless it needs none, has one, or was started by spark-submit."""
    elsewhere = "spark.remote" in settings or "SPARK_REMOTE" in os.environ or settings.get("spark.api.mode") == "connect"
    if elsewhere or SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    conf, files, others = parted(os.environ.get(SUBMIT_ARGUMENTS, "pyspark-shell"))
    theirs = [Path(file).read_text(encoding="utf-8") for file in files]
    # Among the lines of one file the last one counts, as among arguments.
    text = "\n".join((*theirs, as_properties(settings), as_properties(conf)))
    with NamedTemporaryFile("w", prefix="streamtable-", suffix=".conf", encoding="utf-8") as file:  # of mode 0600
        file.write(text)
        file.flush()
        defaults = [] if files else ["--load-spark-defaults"]
        variables = {SUBMIT_ARGUMENTS: shlex.join([PROPERTIES_FILE, file.name, *defaults, *others])}
        if is_local({**ambient_settings(), **settings}):
            # Of Spark's UI and its other ports. On a cluster, executors have to reach some of them.
            variables[ADDRESS] = os.environ.get(ADDRESS, LOOPBACK)
        with _environment(variables):
            SparkContext._ensure_initialized()


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a block."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
