"""DROP: the names go first, then the tables' own files. The answer tells which other files are left."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from streamtable.catalog.halves import Kind, Part, forget
from streamtable.catalog.intents import intended
from streamtable.catalog.paths import is_path
from streamtable.delta.folders import names, probe
from streamtable.delta.tables import ALWAYS, NEVER, drop_own
from streamtable.jvm.storage import no_space

__all__ = ["drop_parts"]


def drop_parts(spark: SparkSession, *parts: Part) -> tuple[str, ...]:
    """Drop tables, the first named first. Return the paths of other files that are left in their folders."""
    with intended(spark, Kind.DROP, *parts):
        for part in parts:
            _probe(spark, part.path)
        for part in parts:
            if not is_path(part.name):
                forget(spark, part.name)
        for part in parts:
            drop_own(spark, part.path, ALWAYS if part.alone else NEVER)
    return tuple(f"{part.path}/{name}" for part in parts for name in names(spark, part.path))


def _probe(spark: SparkSession, path: str) -> None:
    """Raise the storage's error if nothing can be deleted. The table then still has its name."""
    try:
        probe(spark, path)
    except Py4JJavaError as error:
        if not no_space(error):
            raise
