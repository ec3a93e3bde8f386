"""Scala for tests: the compiler is among Spark's jars."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.spark.hosts import JARS

from streamtable.jvm.jars import shim_jar


def compile_scala(source: str, target: Path) -> None:
    """Compile a file of this folder into a folder or a jar."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    compiler = os.pathsep.join(map(str, JARS.glob("scala-*.jar")))
    command = [java, "-cp", compiler, "scala.tools.nsc.Main", "-classpath", f"{JARS}/*{os.pathsep}{shim_jar()}", "-d", target]
    subprocess.run([*command, Path(__file__).with_name(source)], check=True)
