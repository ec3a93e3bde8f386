"""Build the shim's jar into the package: a build hook of hatchling, and a script that `./run` calls before all else.

Python and Java are enough: the Scala compiler is in pyspark's own jars, and Spark's resolver fetches Delta's. The jar is one for a
minor version of Spark: that of the installed pyspark, or with `--all` one for each that is supported, compiled against jars that
pip and Spark's resolver fetch. Each carries a digest of all that it was made from: unchanged sources are not compiled again.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilderConfig

ROOT = Path(__file__).resolve().parents[1]
SHIM = Path("jvm_shim")
JARS = Path("python", "streamtable", "shim")
PACKAGE = Path("python", "streamtable")
CACHE = Path(".build")
VERSION = Path("org", "apache", "spark", "sql", "streamtable", "version")
"""Where the jar says which version of the package it belongs to; PythonChild reads it."""
OPTIONS = ("-encoding", "UTF-8", "-deprecation", "-feature", "-unchecked", "-Xlint")
MINIMUM_JAVA = 17  # Spark 4's own
MANIFEST = b"Manifest-Version: 1.0\r\n\r\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date that zip knows; a real one would make every jar differ

sys.path.append(sysconfig.get_path("purelib"))  # pip hides from an isolated build what is installed where the package goes to


class ShimBuildHook(BuildHookInterface[WheelBuilderConfig]):
    """Have the jar in place before hatchling collects the files of the wheel."""

    def dependencies(self) -> list[str]:
        """Return what the build needs: the pair of the installed Spark, else the newest one; nothing where both are installed."""
        if find_spec("pyspark") and find_spec("delta"):
            return []
        root = Path(self.root)
        versions = _of_package(root, "versions")
        pair = versions.pair_of(_installed(root)) if find_spec("pyspark") else versions.PAIRS[-1]
        return [f"pyspark=={pair.tested}", f"delta-spark=={pair.delta}"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the jar when it is missing or out of date, and leave out those for other versions that are."""
        root = Path(self.root)
        build(root)
        for pair in _of_package(root, "versions").PAIRS:
            jar = _jar(root, pair.spark)
            if _digest_of(jar) != _digest(root, pair.spark):
                jar.unlink(missing_ok=True)


def build(root: Path = ROOT, spark: str | None = None) -> bool:
    """Build the jar of the checkout at `root` unless it is up to date; return whether it was compiled.

    It is for the minor version `spark`, by default that of the installed pyspark. Ends the process with a text for people when the
    version is not supported, Java is missing or the sources do not compile.
    """
    spark = spark or _installed(root)
    digest, jar = _digest(root, spark), _jar(root, spark)
    if _digest_of(jar) == digest:
        return False
    java, sources = find_java(), _sources(root, spark)
    libraries = spark_jars("*.jar") if spark == _installed(root) else _fetched(root, spark)
    print(f"streamtable: compiling {len(sources)} Scala files for Spark {spark}", file=sys.stderr, flush=True)
    with TemporaryDirectory(prefix="streamtable-shim-") as folder:
        classes = Path(folder, "classes")
        classes.mkdir()
        _compile(java, [*libraries, *_delta_jars(root, spark)], sources, classes)
        (classes / VERSION).write_text(_version(root), encoding="utf-8")
        finished = _pack(classes, Path(folder, jar.name), digest)
        jar.parent.mkdir(exist_ok=True)
        partial = jar.with_suffix(f".{os.getpid()}")
        shutil.copyfile(finished, partial)
        partial.replace(jar)  # at once: a session that starts meanwhile sees the old jar or the new one
    return True


def _sources(root: Path, spark: str) -> list[Path]:
    """Return the sources of all versions, and those of this one: `spark-4.1-4.2` is for the versions from 4.1 to 4.2."""
    folders, number = [root / SHIM / "src" / "main" / "scala"], _of_package(root, "versions").number
    for folder in (root / SHIM).glob("spark-*"):
        first, _, last = folder.name.removeprefix("spark-").partition("-")
        if number(first) <= number(spark) <= number(last or first):
            folders.append(folder)
    sources = sorted(source for folder in folders for source in folder.rglob("*.scala"))
    if not sources:
        raise SystemExit(f"streamtable: no Scala sources in {root / SHIM}; is the checkout complete?")
    return sources


def _jar(root: Path, spark: str) -> Path:
    return root / JARS / str(_of_package(root, "versions").jar_name(spark))


def _digest(root: Path, spark: str) -> bytes:
    """Return what tells one jar from another: sources with their names, options, its own version and those that it is for."""
    versions = f"streamtable {_version(root)} spark {spark} {' '.join(OPTIONS)}"
    digest = hashlib.sha256(versions.encode())
    for source in _sources(root, spark):
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


def _installed(root: Path) -> str:
    """Return the minor version of the installed pyspark, which has to be a supported one."""
    cores, versions = spark_jars("spark-core_*.jar"), _of_package(root, "versions")
    if len(cores) != 1:
        raise SystemExit("streamtable: the installed pyspark has no jars of Spark; it has to be pyspark, not pyspark-client")
    found = cores[0].stem.rpartition("-")[2]
    if versions.pair_of(found) is None:
        raise SystemExit(f"streamtable: Spark {found} is not supported; there is {versions.listed()}")
    return str(versions.minor(found))


def _fetched(root: Path, spark: str) -> list[Path]:
    """Return the jars of another Spark than the installed one, which pip fetches once into the checkout's cache."""
    folder = root / CACHE / f"spark-{spark}"
    if not folder.is_dir():
        release = _of_package(root, "versions").pair_of(spark).tested
        print(f"streamtable: fetching pyspark {release} (450 MB, once)", file=sys.stderr, flush=True)
        folder.parent.mkdir(exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as place:
            wanted = ["--no-deps", "--no-binary", "pyspark", f"pyspark=={release}"]
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "-d", place, *wanted], check=True)
            (packed,) = Path(place).glob("pyspark-*.tar.gz")
            jars = Path(place, "jars")
            jars.mkdir()
            with tarfile.open(packed) as archive:
                for member in archive:
                    if member.isfile() and re.fullmatch(r"[^/]+/deps/jars/[^/]+\.jar", member.name):
                        content = archive.extractfile(member)
                        assert content, "it is a file"
                        (jars / Path(member.name).name).write_bytes(content.read())
            jars.rename(folder)
    return sorted(folder.glob("*.jar"))


def _delta_jars(root: Path, spark: str) -> tuple[Path, ...]:
    jars = _of_package(root, "jars")
    try:
        found: tuple[Path, ...] = jars.delta_jars() if spark == _installed(root) else jars.delta_jars(spark)
    except jars.NotEnabled as error:
        raise SystemExit(f"streamtable: {error}") from None
    return found


def _of_package(root: Path, module: str) -> Any:
    """Return a module of streamtable.jvm, without running the package's __init__, which needs what a build does not install."""
    if "streamtable" not in sys.modules:
        package = ModuleType("streamtable")
        package.__path__ = [str(root / PACKAGE)]
        sys.modules["streamtable"] = package
    return import_module(f"streamtable.jvm.{module}")


def _compile(java: str, libraries: Iterable[Path], sources: Iterable[Path], classes: Path) -> None:
    """Run Scala's compiler, which is among Spark's jars."""
    jars = list(libraries)
    compiler = os.pathsep.join(str(jar) for jar in jars if jar.name.startswith("scala-"))
    class_path = os.pathsep.join(map(str, jars))
    command = [java, "-cp", compiler, "scala.tools.nsc.Main", *OPTIONS, "-classpath", class_path, "-d", str(classes)]
    if subprocess.run([*command, *map(str, sources)], check=False).returncode:
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
    for each in (pair.spark for pair in _of_package(ROOT, "versions").PAIRS) if "--all" in sys.argv else (None,):
        build(spark=each)
