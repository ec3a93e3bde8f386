"""Paths of tables. A table that no known catalog has is named by its path, delta.`/a/path`, as in Delta's statements."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from pyspark.sql import SparkSession

from streamtable.delta.folders import is_link, names, table_around
from streamtable.delta.tables import home, place
from streamtable.errors import InvalidStatement
from streamtable.language.names import Name

__all__ = ["HIDDEN", "home_of", "is_path", "name_at", "vacant", "without_links"]

HIDDEN = "/_streamtable"
"""The folder of a table's own further tables, in the folder of the table. Readers and VACUUM of the outer table ignore it."""

_NAMESPACE = ("spark_catalog", "delta")


def name_at(path: str) -> Name:
    """Return the full name of the table at an absolute path."""
    return Name((*_NAMESPACE, path))


def is_path(parts: Sequence[str]) -> bool:
    """Tell whether a full name is a path: names of a schema `delta` hold no slash."""
    return tuple(parts[:-1]) == _NAMESPACE and "/" in parts[-1]


def home_of(spark: SparkSession, name: Sequence[str]) -> str:
    """Return the folder of a full name's schema; for a path, the folder above it."""
    if is_path(name):
        return name[-1].rstrip("/").rpartition("/")[0]
    return home(spark, name[1])


def vacant(spark: SparkSession, name: Sequence[str], location: str | None = None) -> str:
    """Return the path for a new table with a full name. Raises InvalidStatement for an unusable name or path."""
    if is_path(name):
        path = name[-1]
    elif not re.fullmatch(r"\w+", name[-1], re.ASCII):
        hint = "choose another name"
        raise InvalidStatement(f"the catalog takes letters, digits and underscores for a name, and not `{name[-1]}`", hint=hint)
    else:
        path = place(spark, name, location)
    if is_link(spark, path):
        hint = "name the folder that it leads to: DROP follows no link, so that nobody can have it delete elsewhere"
        raise InvalidStatement(f"{path}, the folder of {'.'.join(name)}, is a symbolic link", hint=hint)
    if there := names(spark, path):
        hint = "move away what is in it, or choose another place; if a statement makes a table there now, try again when it is done"
        raise InvalidStatement(f"{path}, the folder of {'.'.join(name)}, is not empty: it holds {_listed(there)}", hint=hint)
    if outer := table_around(spark, without_links(path)):
        hint = "choose a place outside of it: VACUUM of that table deletes what its log does not name"
        raise InvalidStatement(f"{path}, the folder of {'.'.join(name)}, is in the folder of the Delta table at {outer}", hint=hint)
    return path


def without_links(path: str) -> str:
    """Return a path of a local disk without the links on its way; any other as it is."""
    local = path.removeprefix("file:")
    return f"file:{os.path.realpath(local)}" if local.startswith("/") else path


def _listed(there: Sequence[str]) -> str:
    return ", ".join(there[:3]) + (f" and {len(there) - 3} more" if len(there) > 3 else "")
