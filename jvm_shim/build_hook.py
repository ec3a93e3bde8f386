"""Build the shim's jar into the package: a build hook of hatchling, and a script that `./run` calls before all else.

Python and Java are enough: the Scala compiler is in pyspark's own jars, and Spark's resolver fetches Delta's.
The jar carries a digest of all that it was made from, so that unchanged sources are not compiled again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilderConfig

ROOT = Path(__file__).resolve().parents[1]
SOURCES = Path("jvm_shim", "src", "main", "scala")
JAR = Path("python", "streamtable", "shim", "streamtable-shim.jar")
PACKAGE = Path("python", "streamtable")
VERSION = Path("org", "apache", "spark", "sql", "streamtable", "version")
"""Where the jar says which version of the package it belongs to; PythonChild reads it."""
OPTIONS = ("-encoding", "UTF-8", "-deprecation", "-feature", "-unchecked", "-Xlint")
MINIMUM_JAVA = 17  # Spark 4's own
MANIFEST = b"Manifest-Version: 1.0\r\n\r\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that zip knows; a real one would make every jar differ


class ShimBuildHook(BuildHookInterface[WheelBuilderConfig]):
    """Have the jar in place before hatchling collects the files of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar when it is missing or out of date."""
        build(Path(self.root))


def build(root: Path = ROOT) -> bool:
    """Build the jar of the checkout at `root` unless it is up to date; return whether it was compiled.

    Ends the process with a text for people when Java is missing or the sources do not compile.
    """
    sources = sorted((root / SOURCES).rglob("*.scala"))
    if not sources:
        raise SystemExit(f"streamtable: no Scala sources in {root / SOURCES}; is the checkout complete?")
    digest, jar = _digest(root, sources), root / JAR
    if _digest_of(jar) == digest:
        return False
    java = find_java()
    print(f"streamtable: compiling {len(sources)} Scala files", file=sys.stderr, flush=True)
    with TemporaryDirectory(prefix="streamtable-shim-") as folder:
        classes = Path(folder, "classes")
        classes.mkdir()
        class_path = [*spark_jars("*.jar"), *_delta_jars(root)]
        _compile(java, [*OPTIONS, "-classpath", os.pathsep.join(map(str, class_path))], sources, classes)
        (classes / VERSION).write_text(_version(root), encoding="utf-8")
        finished = _pack(classes, Path(folder, JAR.name), digest)
        jar.parent.mkdir(exist_ok=True)
        partial = jar.with_suffix(f".{os.getpid()}")
        shutil.copyfile(finished, partial)
        partial.replace(jar)  # at once: a session that starts meanwhile sees the old jar or the new one
    return True


def _digest(root: Path, sources: Iterable[Path]) -> bytes:
    """Return what tells one jar from another: sources with their names, options, its own version and those compiled against."""
    versions = f"streamtable {_version(root)} pyspark {version('pyspark')} delta-spark {version('delta-spark')} {' '.join(OPTIONS)}"
    digest = hashlib.sha256(versions.encode())
    for source in sources:
        name, text = source.relative_to(root).as_posix().encode(), source.read_bytes()
        digest.update(b"%d %s %d " % (len(name), name, len(text)) + text)
    return digest.hexdigest().encode()


def _version(root: Path) -> str:
    """Return the version of the package; a build has no reader of TOML before Python 3.11."""
    found = re.search(r'^version = "(.+)"$', (root / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert found, "pyproject.toml says the version"
    return found[1]


def _digest_of(jar: Path) -> bytes | None:
    """Return the digest that `_pack` left in the jar, or None where there is no whole jar."""
    try:
        with ZipFile(jar) as archive:
            return archive.comment
    except (OSError, BadZipFile):
        return None


def find_java() -> str:
    """Return the path of a Java that runs Spark, from JAVA_HOME or else from PATH, as Spark itself looks for it."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    where = f"JAVA_HOME={home}" if home else "PATH"
    wanted = f"install a Java runtime, {MINIMUM_JAVA} or 21 (on Debian: openjdk-17-jre-headless), and try again"
    if java is None:
        raise SystemExit(f"streamtable: no java in {where}; Spark and the build of its extension need one.\n{wanted}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < MINIMUM_JAVA:
        raise SystemExit(f"streamtable: {java} is too old or does not run:\n{said.strip()}\n{wanted}")
    return java


def spark_jars(pattern: str) -> list[Path]:
    """Return the jars of the installed pyspark that fit a pattern of names."""
    spark = find_spec("pyspark")  # found, not imported: that takes longer than all the rest when nothing changed
    if spark is None or spark.origin is None:
        raise SystemExit("streamtable: pyspark is not installed; it has the Scala compiler")
    return sorted(Path(spark.origin).parent.glob(f"jars/{pattern}"))


def _delta_jars(root: Path) -> tuple[Path, ...]:
    """Ask streamtable.jvm.jars, without running the package's __init__, which needs what a build does not install."""
    package = ModuleType("streamtable")
    package.__path__ = [str(root / PACKAGE)]
    sys.modules["streamtable"] = package
    from streamtable.errors import NotEnabled
    from streamtable.jvm.jars import delta_jars

    try:
        return delta_jars()
    except NotEnabled as error:
        raise SystemExit(f"streamtable: {error}") from None


def _compile(java: str, options: Iterable[str], sources: Iterable[Path], classes: Path) -> None:
    """Run Scala's compiler, which is among Spark's jars."""
    compiler = os.pathsep.join(map(str, spark_jars("scala-*.jar")))
    command = [java, "-cp", compiler, "scala.tools.nsc.Main", *options, "-d", str(classes), *map(str, sources)]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("streamtable: the Scala shim does not compile; the compiler's messages are above")


def _pack(classes: Path, jar: Path, digest: bytes) -> Path:
    """Write a jar that depends on its content only, by zipfile: a Java runtime without the JDK has no jar tool."""
    files = sorted(path for path in classes.rglob("*") if path.is_file())
    content = {path.relative_to(classes).as_posix(): path.read_bytes() for path in files}
    with ZipFile(jar, "w") as archive:
        for name, data in {"META-INF/MANIFEST.MF": MANIFEST, **content}.items():
            archive.writestr(ZipInfo(name, EPOCH), data, ZIP_DEFLATED)
        archive.comment = digest
    return jar


if __name__ == "__main__":
    build()
