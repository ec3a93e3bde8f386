"""The limits of a server's clients. The rules are in the shim (Guard.scala), the exceptions in [server]."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from streamtable.errors import InvalidStatement
from streamtable.jvm.gateway import SHIM, java_class
from streamtable.settings.server_file import ServerSettings
from streamtable.settings.spark import items

__all__ = ["KINDS", "guard", "interceptors", "kinds_of", "places_of"]

KINDS = ("code", "files", "sources", "settings")
INTERCEPTORS = "spark.connect.grpc.interceptor.classes"


def kinds_of(server: ServerSettings) -> list[str]:
    """Return the exceptions in [server]. Raises InvalidStatement for an unknown one."""
    wanted = items(server.allow)
    if unknown := [kind for kind in wanted if kind not in KINDS]:
        raise InvalidStatement(f"allow in [server] names {unknown[0]!r}", hint=f"there are: {', '.join(KINDS)}")
    return wanted


def places_of(server: ServerSettings) -> list[str]:
    """Return the folders that [server] allows: absolute paths, or locations with a scheme."""
    return [place if ":" in place else str(Path(place).absolute()) for place in items(server.paths)]


def guard(spark: SparkSession, server: ServerSettings) -> None:
    """Check all statements of clients from now on."""
    jvm = spark._jvm
    lists = []
    for texts in (kinds_of(server), places_of(server)):
        made = jvm.java.util.ArrayList()  # type: ignore[union-attr]
        for text in texts:
            made.add(text)
        lists.append(made)
    java_class(spark, f"{SHIM}.Guard").set(spark._jsparkSession, *lists)


def interceptors(given: str) -> str:
    """Return the interceptors of Spark Connect: ours, then those of the user."""
    return ",".join((f"{SHIM}.GuardedConnect", *items(given)))
