"""Format the Scala of the checkout, or, with --list, name the files that are not formatted; Spark's resolver fetches scalafmt."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from jvm_shim.build_hook import find_java, spark_jars

from streamtable.errors import NotEnabled
from streamtable.jvm.jars import resolve

ROOT = Path(__file__).resolve().parent.parent
CONFIGURATION = ROOT / ".scalafmt.conf"
SOURCES = (ROOT / "jvm_shim", ROOT / "tests" / "spark")


def main(arguments: list[str]) -> int:
    """Run scalafmt, of the version that its configuration asks for, with the arguments; return its status."""
    version = re.findall(r'^version = "(.+)"', CONFIGURATION.read_text(), re.MULTILINE)[0]
    try:
        # It names a library for tests among what it needs, which is not published.
        jars = resolve((f"org.scalameta:scalafmt-cli_2.13:{version}",), transitive=True, without="org.scalameta:testkit_2.13")
    except NotEnabled as error:  # who has Delta but no network can work on
        print(f"streamtable: the Scala is not looked at, because scalafmt is missing: {error}", file=sys.stderr)
        return 0
    scala = spark_jars("scala-*.jar")  # which Spark's resolver never fetches
    program = [find_java(), "-cp", os.pathsep.join(map(str, [*jars, *scala])), "org.scalafmt.cli.Cli", "--non-interactive"]
    return subprocess.run([*program, "--config", CONFIGURATION, *arguments, *SOURCES], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
