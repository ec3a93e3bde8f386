"""What clients of a server may not do: the rules are the shim's (Guard.scala), the exceptions those of [server]."""

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
    """Return what [server] allows; raise InvalidStatement for what does not exist."""
    wanted = items(server.allow)
    if unknown := [kind for kind in wanted if kind not in KINDS]:
        raise InvalidStatement(f"allow in [server] names {unknown[0]!r}", hint=f"there are: {', '.join(KINDS)}")
    return wanted


def places_of(server: ServerSettings) -> list[str]:
    """Return the folders that [server] allows: absolute paths, or locations with a scheme."""
    return [place if ":" in place else str(Path(place).absolute()) for place in items(server.paths)]


def guard(spark: SparkSession, server: ServerSettings) -> None:
    """Look at all statements of clients from now on."""
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
