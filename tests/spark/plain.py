"""A plain driver as a process of its own, for tests that need a JVM of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

__all__ = ["completed", "run_python"]

_PREAMBLE = """
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from streamtable import configure, enable
from streamtable.jvm.callback import register
from streamtable.errors import NotEnabled

class Answers:
    def describe(self, spark, sql):
        return StructType.fromDDL("name string")
    def run(self, spark, sql):
        return [(spark.sparkContext.appName,)]

def builder(name):
    small = SparkSession.builder.master("local[1]").appName(name).config("spark.driver.memory", "1g")
    return small.config("spark.ui.enabled", "false").config("spark.log.level", "ERROR")
"""


def completed(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `script` in a process of its own, which has to end well."""
    inherited = {key: value for key, value in os.environ.items() if key != "SPARK_CONF_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", _PREAMBLE + textwrap.dedent(script)],
        cwd=folder,
        env={**inherited, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


def run_python(folder: Path, script: str, **environment: str) -> str:
    """Return what the script printed."""
    return completed(folder, script, **environment).stdout
