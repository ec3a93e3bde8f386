"""The command line answers or says what it does before it imports what takes long."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import version

import pytest

import streamtable
from streamtable import errors

HEAVY = ("pyspark", "py4j", "sqlglot", "networkx", "lark", "prompt_toolkit", "IPython")


def python(code: str, *, terminal: bool = False) -> tuple[str, str]:
    """Run a program; return what it wrote to stdout and to stderr, which may be a terminal."""
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "TERM": "xterm"}
    if not terminal:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        said = b""
        with suppress(OSError):  # how a terminal ends
            while data := os.read(ours, 65536):
                said += data
        os.close(ours)
        assert process.stdout is not None
        return process.stdout.read(), said.decode()


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["refresh", "--help"], ["run"], ["refresh"]])
def test_what_needs_no_session_imports_no_spark(arguments: list[str]) -> None:
    out, _ = python(
        "import sys\nfrom streamtable.hosts.cli.app import app\n"
        f"try:\n    app({arguments})\nexcept SystemExit:\n    pass\nprint([each for each in {HEAVY} if each in sys.modules])"
    )
    assert out.splitlines()[-1] == "[]"


def test_the_version_is_told_with_those_that_matter() -> None:
    out, err = python("from streamtable.hosts.cli.app import app\napp(['--version'])")
    assert out.startswith(
        f"streamtable {streamtable.__version__} (pyspark {version('pyspark')}, delta-spark {version('delta-spark')}, "
    )
    assert err == ""


SLOW = """
import os, sys, time
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from streamtable.hosts.cli import options

@contextmanager
def opened(remote, conf):
    from streamtable.jvm.output import jvm_output  # while a JVM starts, stderr is a file
    with TemporaryDirectory() as folder, jvm_output(Path(folder, "jvm.log")):
        os.write(2, b"noise of Java")
        time.sleep(1)
    yield None

options.opened = opened
with options.cli_context(REMOTE, None, AS_JSON) as context:
    print("open")
"""


@pytest.mark.parametrize(("remote", "said"), [(None, "starting Spark, about 10 s"), ("sc://h", "connecting to the server")])
def test_a_terminal_is_told_what_takes_long(remote: str | None, said: str) -> None:
    out, err = python(SLOW.replace("REMOTE", repr(remote)).replace("AS_JSON", "False"), terminal=True)
    assert out == "open\n" and "noise" not in err
    assert err.count(said) > 4  # it moves meanwhile
    assert err.rstrip().endswith("\x1b[2K")  # and the line is gone afterwards


@pytest.mark.parametrize(("terminal", "as_json"), [(False, False), (False, True), (True, True)])
def test_a_program_is_told_nothing(terminal: bool, as_json: bool) -> None:
    out, err = python(SLOW.replace("REMOTE", "None").replace("AS_JSON", repr(as_json)), terminal=terminal)
    assert (out, err) == ("open\n", "")


def test_the_package_has_all_its_names() -> None:
    assert {"configure", "StreamTables", "console", "load_ipython_extension", *errors.__all__} <= set(streamtable.__all__)
    assert set(streamtable.__all__) <= set(dir(streamtable))
    assert streamtable.StreamTableNotFound is errors.StreamTableNotFound
    out, _ = python(
        "from streamtable import *\nimport streamtable\nprint([each for each in streamtable.__all__ if each not in globals()])"
    )
    assert out == "[]\n"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = streamtable.nothing  # type: ignore[attr-defined]
