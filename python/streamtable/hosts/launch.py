"""Start the JVM of a PySpark driver, with the settings in a file that only its owner can read.

PySpark passes each setting to the JVM by `--conf`, where every user of the machine can read passwords, keys and tokens.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from pyspark import SparkContext

from streamtable.settings.spark import PROPERTIES_FILE, SUBMIT_ARGUMENTS, as_properties, parted

__all__ = ["launch"]


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
        with _submit_arguments([PROPERTIES_FILE, file.name, *defaults, *others]):
            SparkContext._ensure_initialized()


@contextmanager
def _submit_arguments(arguments: Sequence[str]) -> Iterator[None]:
    before = os.environ.get(SUBMIT_ARGUMENTS)
    os.environ[SUBMIT_ARGUMENTS] = shlex.join(arguments)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SUBMIT_ARGUMENTS]
        else:
            os.environ[SUBMIT_ARGUMENTS] = before
