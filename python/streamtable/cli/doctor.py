"""What is wrong with an installation, and how to put it right: one line per thing that has to be there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from streamtable.cli.sessions import opened
from streamtable.errors import NotEnabled
from streamtable.jars import delta_jars, shim_jar

__all__ = ["Check", "examined"]

MINIMUM_JAVA = 17
OPTIONAL = {"grpc": "connect", "IPython": "notebook"}
"""Modules that not everybody needs, and the extra of the package that brings each."""


@dataclass(frozen=True)
class Check:
    """Something that was looked at: what was found, and what to do where that is not right."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def examined(remote: str | None, conf: dict[str, str]) -> Iterator[Check]:
    """Yield what was looked at, the simplest first; what needs all of it, a session, comes last."""
    sound = True
    for check in (_python, _packages, _java, _shim, _delta, _folder):
        checked = check()
        sound = sound and checked.ok
        yield checked
    yield from _extras()
    if sound or remote:
        yield _session(remote, conf)


def _python() -> Check:
    return Check("python", sys.version_info >= (3, 10), f"{sys.version.split()[0]} {sys.executable}", "use Python 3.10 or newer")


def _packages() -> Check:
    """Compare what is installed with what this package was made for: a wrong pair of Spark and Delta fails in odd ways."""
    wrong = list[str]()
    for name, wanted in _pinned().items():
        found = _version(name)
        if found != wanted:
            wrong.append(f"{name} is {found or 'missing'} and has to be {wanted}")
    found = ", ".join(f"{name} {_version(name)}" for name in ("streamtable", "pyspark", "delta-spark"))
    return Check("packages", not wrong, "; ".join(wrong) or found, "pip install --force-reinstall streamtable")


def _pinned() -> dict[str, str]:
    try:
        lines = requires("streamtable") or []
    except PackageNotFoundError:  # a checkout on the path
        return {}
    return {found[1]: found[2] for line in lines if (found := re.match(r"([\w-]+)(?:\[\w+\])?==([\w.]+)$", line))}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _java() -> Check:
    home = os.environ.get("JAVA_HOME")
    where = f"JAVA_HOME={home}" if home else "PATH"
    remedy = f"install Java {MINIMUM_JAVA} or 21 (on Debian: openjdk-17-jre-headless), or let JAVA_HOME name the folder of one"
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        return Check("java", ok=False, found=f"none in {where}", remedy=remedy)
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    number = re.search(r'version "(?:1\.)?(\d+)', said)
    return Check("java", bool(number and int(number[1]) >= MINIMUM_JAVA), f"{said.splitlines()[0] if said else '?'} {java}", remedy)


def _shim() -> Check:
    return _tried("shim", lambda: str(shim_jar()))


def _delta() -> Check:
    return _tried("delta", lambda: ", ".join(jar.name for jar in delta_jars()))


def _tried(name: str, find: Callable[[], str]) -> Check:
    try:
        return Check(name, ok=True, found=find())
    except NotEnabled as error:
        return Check(name, ok=False, found=error.reason, remedy=error.hint or "")


def _folder() -> Check:
    """Look whether the current folder can hold a catalog; a folder that has one must be writable inside as well."""
    folder = Path.cwd()
    closed = [path for path in (folder, folder / "metastore_db", folder / "spark-warehouse") if path.exists() and not _open(path)]
    return Check(
        "folder",
        not closed,
        f"not writable: {', '.join(map(str, closed))}" if closed else str(folder),
        "work in a folder that you may write: catalog and tables are kept there; or name a metastore in streamtable.toml",
    )


def _open(path: Path) -> bool:
    return os.access(path, os.R_OK | os.W_OK | os.X_OK)


def _extras() -> Iterator[Check]:
    for module, extra in OPTIONAL.items():
        there = find_spec(module) is not None
        yield Check(extra, ok=True, found="installed" if there else f"not there; pip install 'streamtable[{extra}]' if you need it")


def _session(remote: str | None, conf: dict[str, str]) -> Check:
    try:
        with opened(remote, conf) as spark:
            databases = spark.sql("SHOW DATABASES").count()
            spark.sql("SHOW STREAM TABLES").collect()
            return Check("session", ok=True, found=f"Spark {spark.version}, {databases} schemas, statements are answered")
    except NotEnabled as error:
        return Check("session", ok=False, found=error.reason, remedy=error.hint or "")
    except Exception as error:  # whatever it is, a person wants to read it here
        return Check("session", ok=False, found=str(error), remedy="the message above is Spark's own")
