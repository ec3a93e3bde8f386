"""DROP: the names go first, then the files that are the tables' own; what is left of others is told."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from streamtable.catalog.halves import Kind, Part, forget
from streamtable.catalog.intents import intended
from streamtable.catalog.paths import is_path
from streamtable.delta.folders import names, probe
from streamtable.delta.tables import drop_own
from streamtable.jvm.storage import no_space

__all__ = ["drop_parts"]


def drop_parts(spark: SparkSession, *parts: Part) -> tuple[str, ...]:
    """Drop tables, the first named first; return the paths of what is left in their folders, because it is not theirs."""
    with intended(spark, Kind.DROP, *parts):
        for part in parts:
            _probe(spark, part.path)
        for part in parts:
            if not is_path(part.name):
                forget(spark, part.name)
        for part in parts:
            drop_own(spark, part.path, part.alone)
    return tuple(f"{part.path}/{name}" for part in parts for name in names(spark, part.path))


def _probe(spark: SparkSession, path: str) -> None:
    """Raise what the storage says where nothing can be deleted: the table has its name still."""
    try:
        probe(spark, path)
    except Py4JJavaError as error:
        if not no_space(error):
            raise
