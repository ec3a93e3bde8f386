"""Storage that is away: nothing is where the folders of tables were, as where a disk is not mounted any more."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from streamtable.catalog.entries import table_names
from streamtable.catalog.paths import home_of, is_path
from streamtable.delta.tables import Located, find_table
from streamtable.errors import StorageFailed
from streamtable.jvm.storage import not_mounted

__all__ = ["away", "home_away", "path_away"]

_DEFAULT = "fs.defaultFS"


def away(spark: SparkSession, located: Located) -> StorageFailed | None:
    """Return the error of a name whose storage is away, whether a table has the name or not."""
    if located.kind == "delta":
        return path_away(spark, located.path, known=not is_path(located.name))
    return home_away(spark, located.name)


def path_away(spark: SparkSession, path: str, known: bool = True) -> StorageFailed | None:
    """Return the error of a folder whose storage is away, as `not_mounted` does. A path without a scheme is of the default one."""
    if path.startswith("/") and str(spark._jsparkSession.sessionState().newHadoopConf().get(_DEFAULT)).startswith("file:"):
        path = f"file:{path}"
    return not_mounted(path, known)


def home_away(spark: SparkSession, name: Sequence[str]) -> StorageFailed | None:
    """Return the error of a schema whose folder is away, with the tables in it. A new schema may have no folder yet."""
    if is_path(name):
        return None
    home = home_of(spark, name)
    failed = not_mounted(f"{home}/_")
    if failed is None:
        return None
    paths = (find_table(spark, each).path for each in table_names(spark, name[:-1]))
    return failed if any(path.rpartition("/")[0] == home for path in paths) else None
