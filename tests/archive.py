"""An archive of the classes that a session loads: with it, and without Java's second compiler, a process of a few statements takes half as long.

Tests start about a hundred such processes. Java checks by itself that an archive fits the class path; without one, or with one
that does not fit, it loads the classes as ever. So nobody waits for the archive: it is made beside the first tests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory

from tests.spark.killed import SESSION, environment_of_the_tests

from streamtable.jvm.jars import shim_jar

TRAINING = """
import os, sys
spark = session(1)
for statement in (
    "CREATE TABLE s (k INT, v INT) USING delta",
    "INSERT INTO s VALUES (1, 1), (2, 2)",
    "CREATE STREAM TABLE joined AS SELECT s.k, sum(o.v) AS v FROM s JOIN s AS o ON s.k = o.k GROUP BY s.k",
    "UPDATE s SET v = 3 WHERE k = 1",
    "REFRESH STREAM TABLE joined",
    "VERIFY STREAM TABLE joined",
):
    spark.sql(statement).collect()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.proc.stdin.close()  # the JVM writes the archive when it ends by itself
gateway.proc.wait()
os.rename(sys.argv[1], sys.argv[2])  # never half of one
"""


# Without the second compiler Java reserves 48 MB for compiled code: a server of the tests fills them, and is interpreted from then on.
# Java begins with little room for classes, and collects the whole heap at each step up. On two cores a collector that works beside
# the program, as the usual one does, takes the time of the tests.
SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:MetaspaceSize=256m "
    "-XX:+UseParallelGC -XX:ParallelGCThreads=1 -Xlog:disable"
)


def options(archive: Path) -> str:
    """Return the options of a JVM that lives for a few statements."""
    return f"{SHORT_LIVED} -XX:SharedArchiveFile={archive}"


def place(folder: Path) -> Path:
    """Return where the archive of the jars that are installed now belongs."""
    return folder / f"{shim_jar().stat().st_mtime_ns}.jsa"


@contextmanager
def making(archive: Path) -> Iterator[None]:
    """Make the archive while the tests run, if it is not there yet."""
    if archive.exists():
        yield
        return
    for old in archive.parent.glob("*.jsa*"):
        old.unlink()
    partial = archive.with_suffix(".jsa.partial")
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-c", SESSION + TRAINING, str(partial), str(archive)]
        environment = {**environment_of_the_tests(), "SPARK_SUBMIT_OPTS": f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={partial}"}
        with Popen(command, cwd=folder, env=environment, stdout=DEVNULL, stderr=DEVNULL) as process:
            yield
            process.terminate()
