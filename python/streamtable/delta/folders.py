"""Folders beside tables, in whatever storage these are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import SparkSession

from streamtable.delta.bridge import java_class

__all__ = ["children", "left_behind"]


def left_behind(session: SparkSession, folder: str, kept: str, age: timedelta) -> list[str]:
    """Return the paths in `folder`, but for the one named `kept`, into which nothing was written for `age`."""
    storage, paths = _listed(session, folder)
    before = (datetime.now(timezone.utc) - age).timestamp() * 1000
    others = [path for path in paths if path.getName() != kept]
    return [str(path) for path in others if all(at < before for at in _written(storage, path))]


def children(session: SparkSession, folder: str) -> list[str]:
    """Return the paths in `folder`, none when it is not there."""
    return [str(path) for path in _listed(session, folder)[1]]


def _listed(session: SparkSession, folder: str) -> tuple[Any, list[Any]]:
    """Return the storage and the paths in a folder."""
    root = java_class(session, "org.apache.hadoop.fs.Path")(folder)
    storage = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    return storage, [each.getPath() for each in storage.listStatus(root)] if storage.exists(root) else []


def _written(storage: Any, path: Any) -> Iterator[int]:
    """Yield when each file was written, in milliseconds since 1970."""
    files = storage.listFiles(path, True)
    while files.hasNext():
        yield int(files.next().getModificationTime())
