"""Find the jars that a session needs: the shim, which comes with this package, and Delta's, which Spark fetches once.

The package's build also asks it for the compile class path, so it imports only the errors of the package.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, cast

from py4j.protocol import Py4JJavaError
from pyspark import __version__ as spark_version
from pyspark.java_gateway import launch_gateway

from streamtable.errors import NotEnabled
from streamtable.jvm.versions import jar_name, listed, minor, pair_of

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

SHIM = Path(__file__).parents[1] / "shim" / jar_name(spark_version)
SHIM_VARIABLE = "STREAMTABLE_SHIM_JAR"


def check_versions(spark: str = spark_version) -> None:
    """Raise NotEnabled unless this Spark is the installed pyspark's, and supported with the installed Delta."""
    pair, delta = pair_of(spark), _delta_version()
    if pair is None or pair.delta != delta:
        raise NotEnabled(
            f"Spark {spark} with Delta Lake {delta} is not supported",
            hint=f"install one of these pairs as pyspark and delta-spark: {listed()}",
        )
    if minor(spark) != minor(spark_version):
        raise NotEnabled(
            f"the session runs on Spark {spark}, and the installed pyspark is {spark_version}",
            hint="unset SPARK_HOME, or install the pyspark of that Spark",
        )


def _delta_version() -> str:
    try:
        return version("delta-spark")
    except PackageNotFoundError:
        return "(none is installed)"


def shim_jar() -> Path:
    """Return the shim's jar for the installed pyspark: the one in this package, else the one in STREAMTABLE_SHIM_JAR."""
    found = SHIM if SHIM.is_file() else Path(os.environ.get(SHIM_VARIABLE, ""))
    if not found.is_file():
        raise NotEnabled(
            f"the shim's jar for pyspark {spark_version} is missing: {SHIM} is no file, "
            f"nor is {SHIM_VARIABLE}={os.environ.get(SHIM_VARIABLE, '')}",
            hint="install a wheel of the package, which has the jars of all versions, or install the package again beside "
            "this pyspark, which builds the jar; in a checkout, ./run builds it",
        )
    return found.resolve()


@lru_cache(maxsize=1)
def delta_jars(spark: str = spark_version) -> tuple[Path, ...]:
    """Return Delta's jars for a version of Spark, by default the installed one. Missing jars are fetched.

    These two are enough to compile and to run: Delta's other dependencies serve other engines (kernel, Unity Catalog) or
    come with Spark. A JVM is started only if the jars are in no folder of Spark's resolver.
    """
    if spark == spark_version:
        check_versions()
    pair = pair_of(spark)
    assert pair, "somebody asks for a version that is supported"
    delta, artifacts = pair.delta, (f"delta-spark_{pair.spark}_2.13", "delta-storage")
    for folder in _resolver_folders():
        jars = tuple(folder / "jars" / f"io.delta_{artifact}-{delta}.jar" for artifact in artifacts)
        if all(jar.is_file() for jar in jars):
            return jars
    # What Delta depends on is left out: its kernel would bring in a second Hadoop of 100 MB.
    return resolve(tuple(f"io.delta:{artifact}:{delta}" for artifact in artifacts))


def _resolver_folders() -> tuple[Path, ...]:
    """Return the folders of Spark's resolver: its default name under $HOME, and under Java's home."""
    homes = [Path.home()]
    if os.name == "posix":
        from pwd import getpwuid

        homes.append(Path(getpwuid(os.getuid()).pw_dir))  # user.home does not follow $HOME
    return tuple(home / ".ivy2.5.2" for home in dict.fromkeys(homes))


def resolve(coordinates: tuple[str, ...], transitive: bool = False, without: str | None = None) -> tuple[Path, ...]:
    """Have Spark's own resolver fetch `coordinates`, and what they depend on if `transitive`, in a JVM of its own."""
    with TemporaryFile() as log:
        try:
            gateway = launch_gateway(popen_kwargs={"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            try:
                return _fetch(gateway, coordinates, transitive, without)
            finally:
                _end(gateway)
        except Exception as error:  # py4j and Spark have no common class for "did not work"
            log.seek(0)
            said = "\n".join(log.read().decode(errors="replace").strip().splitlines()[-15:])
            raise NotEnabled(
                f"jars could not be fetched ({', '.join(coordinates)}): {error}\n{said}",
                hint="connect once to a Maven repository (spark.jars.repositories or spark.jars.ivySettings in "
                "spark-defaults.conf name another one than Maven Central), and check that Java is installed",
            ) from error


def _fetch(gateway: JavaGateway, coordinates: tuple[str, ...], transitive: bool, without: str | None) -> tuple[Path, ...]:
    """Call the resolver with the settings that spark-defaults.conf and PYSPARK_SUBMIT_ARGS give it."""
    jvm = gateway.jvm
    setting = jvm.java.lang.System.getProperty
    try:
        found = jvm.org.apache.spark.util.DependencyUtils.resolveMavenDependencies(
            transitive,
            without,
            ",".join(coordinates),
            setting("spark.jars.repositories"),
            setting("spark.jars.ivy"),
            jvm.scala.Option.apply(setting("spark.jars.ivySettings")),
        )
    except Py4JJavaError as error:
        raise LookupError(error.java_exception.getMessage()) from None  # py4j's error asks the JVM for its text
    return tuple(Path(cast(str, found.apply(i))) for i in range(found.size()))


def _end(gateway: JavaGateway) -> None:
    """End the gateway's JVM, unless spark-submit started it."""
    process = gateway.proc
    if process is None:
        gateway.close()
        return
    gateway.shutdown()
    process.stdin.close()
    process.wait()
