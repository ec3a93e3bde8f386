"""Checks of an installation, with a remedy for each fault: one line per check."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.definitions.leftovers import leftovers
from streamtable.errors import InvalidStatement, NotEnabled, message_of
from streamtable.hosts.cli.sessions import opened
from streamtable.hosts.cli.versions import versions
from streamtable.jvm.jars import check_versions, delta_jars, shim_jar
from streamtable.observe.unaccepted import unaccepted
from streamtable.schedule.switch import switch
from streamtable.settings.server_file import FILE, exposed, load
from streamtable.settings.spark import METASTORE, WAREHOUSE, settings_for

__all__ = ["Check", "examined"]

MINIMUM_JAVA = 17
SPARK_CORE = "spark-core_2.13-"
OPTIONAL = {"grpc": "connect", "IPython": "notebook", "uvicorn": "console"}
"""Optional modules, and the extra of the package that installs each."""


@dataclass(frozen=True)
class Check:
    """A check: its result, and the remedy of a fault."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def examined(remote: str | None, conf: dict[str, str], fix: bool = False, accept: bool = False) -> Iterator[Check]:
    """Yield the checks, the simplest first. The session comes last, because it needs all others.

    `fix` settles the remains of killed statements. `accept` accepts definitions that the catalog never knew.
    """
    sound = True
    of_a_client = (_python, _packages)
    for check in of_a_client if remote else (*of_a_client, _java, _spark, _shim, _delta, lambda: _catalog(conf)):
        checked = check()
        sound = sound and checked.ok
        yield checked
    yield from _extras()
    if not remote:
        yield _secrets()
    if sound:
        yield from _in_session(remote, conf, fix, accept)


def _python() -> Check:
    return Check("python", sys.version_info >= (3, 10), f"{sys.version.split()[0]} {sys.executable}", "use Python 3.10 or newer")


def _packages() -> Check:
    """Compare the installed versions with the supported ones, because a wrong pair of Spark and Delta fails in odd ways."""
    found = ", ".join(f"{name} {version}" for name, version in versions().items() if name != "python")

    def sound() -> str:
        check_versions()
        return found

    return _tried("packages", sound)


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


def _spark() -> Check:
    """Check the Spark that will start: pyspark starts the Spark in SPARK_HOME, whatever its version."""
    home = os.environ.get("SPARK_HOME")
    if home is None:
        return Check("spark", ok=True, found="the one in pyspark")
    jars = Path(home, "jars").glob(f"{SPARK_CORE}*.jar")
    found = " and ".join(jar.stem.removeprefix(SPARK_CORE) for jar in jars) or "no Spark for Scala 2.13"
    told = f"SPARK_HOME={home} has {found}, pyspark is {spark_version}"
    return Check("spark", found == spark_version, told, "unset SPARK_HOME: pyspark brings its own Spark")


def _shim() -> Check:
    return _tried("shim", lambda: str(shim_jar()))


def _delta() -> Check:
    return _tried("delta", lambda: ", ".join(jar.name for jar in delta_jars()))


def _catalog(conf: dict[str, str]) -> Check:
    """Check that the folders of tables and of the embedded metastore can be written, or made."""

    def found() -> str:
        given = {**load().spark, **conf}
        places = _places({**given, **settings_for(given)})
        closed = [str(place) for place in places if not _open(place)]
        if closed:
            raise NotEnabled(
                f"not writable: {', '.join(closed)}",
                hint=f"work in a folder that you may write, or let {WAREHOUSE} and a metastore in {FILE} name other places",
            )
        return ", ".join(map(str, places)) or "of your own"

    return _tried("catalog", found)


def _secrets() -> Check:
    """Check that only their owner and his group can read the files that hold secrets."""

    def found() -> str:
        if files := exposed(load()):
            raise NotEnabled(f"everybody on this machine can read {', '.join(files)}", hint=f"chmod 600 {' '.join(files)}")
        return "no file of them is open to everybody"

    return _tried("secrets", found)


def _places(given: dict[str, str]) -> list[Path]:
    """Return the folders of this machine among the places of catalog and tables."""
    warehouse = urlsplit(given.get(WAREHOUSE, ""))
    metastore = re.match(r"jdbc:derby:;databaseName=([^;]+)", given.get(METASTORE, ""))
    local = [warehouse.path] if warehouse.path and warehouse.scheme in ("", "file") else []
    return [Path(each).absolute() for each in (*local, *(metastore.groups() if metastore else ()))]


def _open(place: Path) -> bool:
    there = next(path for path in (place, *place.parents) if path.exists())
    return there.is_dir() and os.access(there, os.R_OK | os.W_OK | os.X_OK)


def _tried(name: str, find: Callable[[], str]) -> Check:
    try:
        return Check(name, ok=True, found=find())
    except (NotEnabled, InvalidStatement) as error:
        return Check(name, ok=False, found=error.reason, remedy=error.hint or "")


def _extras() -> Iterator[Check]:
    for module, extra in OPTIONAL.items():
        there = find_spec(module) is not None
        yield Check(extra, ok=True, found="installed" if there else f"not there; pip install 'streamtable[{extra}]' if you need it")


def _in_session(remote: str | None, conf: dict[str, str], fix: bool, accept: bool) -> Iterator[Check]:
    try:
        with opened(remote, conf) as spark:
            databases = spark.sql("SHOW DATABASES").count()
            spark.sql("SHOW STREAM TABLES").collect()
            yield Check("session", ok=True, found=f"Spark {spark.version}, {databases} schemas, statements are answered")
            if not remote:
                yield _scheduler(spark)
                yield _leftovers(spark, fix)
                yield _definitions(spark, accept)
    except (NotEnabled, InvalidStatement) as error:
        yield Check("session", ok=False, found=error.reason, remedy=error.hint or "")
    except Exception as error:  # whatever it is, a person wants to read it here
        yield Check("session", ok=False, found=message_of(error), remedy="the message above is Spark's own")


def _scheduler(spark: SparkSession) -> Check:
    since = switch(spark).suspended_since
    remedy = "if nobody wants that any more: ALTER SCHEDULER RESUME"
    return Check("scheduler", since is None, f"suspended since {since}" if since else "not suspended", remedy)


def _leftovers(spark: SparkSession, fix: bool) -> Check:
    """Look for the remains of killed statements, and settle them on request. One that cannot be settled stops no other."""
    found = list(leftovers(spark))
    left = [_left(each.found, each.mend if fix else None) for each in found]
    mended = "; ".join(each.found for each, still in zip(found, left, strict=True) if not still)
    told = "; ".join([*filter(None, left), *([f"mended: {mended}"] if mended else [])])
    remedy = "do what is said there, then run it again" if fix else "streamtable doctor --fix takes away or finishes what is listed"
    return Check("leftovers", not any(left), told or "none", remedy)


def _left(found: str, mend: Callable[[], object] | None) -> str:
    """Mend what was found, if there is a way; tell what is still left of it, or nothing."""
    if mend is None:
        return found
    try:
        mend()
    except (PySparkException, Py4JJavaError) as error:
        return f"{found}: {message_of(error)}"
    return ""


def _definitions(spark: SparkSession, accept: bool) -> Check:
    """Look for definitions that the catalog never knew, as after an upgrade, and accept them on request, whatever others say."""
    statements = list(unaccepted(spark))
    left = [_left(each, partial(spark.sql, each) if accept else None) for each in statements]
    remedy = (
        "version 0.1.0 made these, or another catalog had them. See by SHOW TBLPROPERTIES what each holds: it will run as you. "
        "Then run these statements, or streamtable doctor --accept, which runs them all"
    )
    return Check("accepted", not any(left), "; ".join(filter(None, left)) or "; ".join(statements) or "all definitions", remedy)
