"""Folders beside tables, in whatever storage these are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import SparkSession

__all__ = ["left_behind"]


def left_behind(session: SparkSession, folder: str, kept: str, age: timedelta) -> list[str]:
    """Return the paths in `folder`, but for the one named `kept`, into which nothing was written for `age`."""
    jvm: Any = session._jvm
    root = jvm.org.apache.hadoop.fs.Path(folder)
    storage = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    if not storage.exists(root):
        return []
    before = (datetime.now(timezone.utc) - age).timestamp() * 1000
    others = [each.getPath() for each in storage.listStatus(root) if each.getPath().getName() != kept]
    return [str(path) for path in others if all(at < before for at in _written(storage, path))]


def _written(storage: Any, path: Any) -> Iterator[int]:
    """Yield when each file was written, in milliseconds since 1970."""
    files = storage.listFiles(path, True)
    while files.hasNext():
        yield int(files.next().getModificationTime())
