"""Processes with a Spark of their own that are killed, with the JVM: nothing is flushed, nothing is closed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

SESSION = """
from pyspark.sql import SparkSession
from streamtable import configure
from tests.settings import QUICK

def session(cores, more={}):
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.log.level": "ERROR",
        **QUICK,
        **more,
    }
    return configure(SparkSession.builder.master(f"local[{cores}]").config(map=settings)).getOrCreate()
"""
"""What the programs open with: `session(cores, settings)` is one of Spark in the folder that they run in."""


def environment_of_the_tests() -> dict[str, str]:
    """Return the environment in which the package and the tests are importable from any folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(place).resolve()) for place in [".", *sys.path] if place != "")}


def start(folder: Path, program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program in a process group of its own; what it prints and reads are pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", SESSION + program, *arguments],
        cwd=folder,
        env=environment_of_the_tests(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(folder: Path, program: str, *arguments: str, patience: float = 300) -> subprocess.CompletedProcess[str]:
    """Run a program in a process group of its own, so that it can kill itself together with its JVM."""
    return subprocess.run(
        [sys.executable, "-c", SESSION + program, *arguments],
        cwd=folder,
        env=environment_of_the_tests(),
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
        timeout=patience,
    )


def ended(done: subprocess.CompletedProcess[str], status: int) -> None:
    assert done.returncode == status, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"


def killed_at_random(folder: Path, program: str, seconds: tuple[float, float], *, times: int = 3, patience: float = 300) -> None:
    """Run a program with the argument "again", kill it so many seconds after it said "started"; in the end let "last" finish."""
    for _ in range(times):
        with start(folder, program, "again") as process:
            assert process.stdout is not None and process.stdout.readline() == "started\n"
            time.sleep(random.uniform(*seconds))
            subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=True)  # the JVM too
    ended(run(folder, program, "last", patience=patience), 0)
