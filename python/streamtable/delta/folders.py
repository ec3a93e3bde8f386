"""Folders beside tables, in whatever storage these are."""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streamtable.delta.bridge import bridge
from streamtable.jvm.gateway import java_class

__all__ = [
    "LOG",
    "children",
    "delete_small",
    "has_commits",
    "is_link",
    "left_behind",
    "link_in",
    "move",
    "names",
    "probe",
    "read_small",
    "refuse_outside",
    "table_around",
    "write_small",
]


LOG = "_delta_log"
"""The folder of the log in the folder of a table."""

_OWN = (LOG, "_streamtable")
"""Folders in that of a table into which VACUUM does not look."""


def refuse_outside(session: SparkSession, table: str, path: str) -> None:
    """Raise DefinitionNotAccepted unless a path is below the hidden folder of the table at `table`, with no link on the way."""
    bridge(session).refuseOutside(session._jsparkSession, table, path)


def left_behind(session: SparkSession, folder: str, kept: Container[str], age: timedelta) -> list[str]:
    """Return the paths in `folder` that nobody wrote into for `age`, except those named in `kept`."""
    storage, paths = _listed(session, folder)
    before = (datetime.now(timezone.utc) - age).timestamp() * 1000
    others = [path for path in paths if path.getName() not in kept]
    return [str(path) for path in others if all(at < before for at in _written(storage, path))]


def children(session: SparkSession, folder: str) -> list[str]:
    """Return the paths in `folder`; a missing folder has none."""
    return [str(path) for path in _listed(session, folder)[1]]


def _listed(session: SparkSession, folder: str) -> tuple[Any, list[Any]]:
    """Return the storage and the paths in a folder."""
    root = java_class(session, "org.apache.hadoop.fs.Path")(folder)
    storage = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    return storage, [each.getPath() for each in storage.listStatus(root)] if storage.exists(root) else []


def _written(storage: Any, path: Any) -> Iterator[int]:
    """Yield the time of each file's last write, in milliseconds since 1970."""
    files = storage.listFiles(path, True)
    while files.hasNext():
        yield int(files.next().getModificationTime())


def names(session: SparkSession, folder: str) -> list[str]:
    """Return the names in a folder; a missing folder has none."""
    return list(json.loads(bridge(session).names(session._jsparkSession, folder)))


def has_commits(session: SparkSession, path: str) -> bool:
    """Tell whether the log in a folder has a commit."""
    return any(name.endswith(".json") for name in names(session, f"{path}/{LOG}"))


def is_link(session: SparkSession, path: str) -> bool:
    """Tell whether a path of a local disk is a symbolic link, whatever it leads to."""
    return bool(bridge(session).isLink(session._jsparkSession, path))


def link_in(path: str) -> str | None:
    """Return a symbolic link in a folder of a local disk, or in the folder's place. Hidden tables and the log are not looked at."""
    folder = Path(path.removeprefix("file:"))
    if not folder.is_absolute():
        return None
    return str(folder) if folder.is_symlink() else _link_in(str(folder), besides=_OWN)


def _link_in(folder: str, besides: Container[str] = ()) -> str | None:
    """Look through a folder by its listings alone: they tell links, and asking for each file takes long on a remote disk."""
    try:
        with os.scandir(folder) as listed:
            inner = [each for each in listed if each.name not in besides]
    except FileNotFoundError:  # it went meanwhile
        return None
    if link := next((each.path for each in inner if each.is_symlink()), None):
        return link
    folders = (each.path for each in inner if each.is_dir(follow_symlinks=False))
    return next(filter(None, map(_link_in, folders)), None)


def table_around(session: SparkSession, path: str) -> str | None:
    """Return the path of the Delta table in whose folder a path is, if it is in one."""
    found: str | None = bridge(session).tableAround(session._jsparkSession, path)
    return found


def probe(session: SparkSession, folder: str) -> None:
    """Raise the storage's error if nothing in a folder can be deleted. A missing folder, or a link, raises nothing."""
    bridge(session).probe(session._jsparkSession, folder)


def read_small(session: SparkSession, folder: str) -> list[tuple[str, int, str]]:
    """Return the name, the time in milliseconds since 1970 and the text of each file in a folder."""
    return [(name, at, text) for name, at, text in json.loads(bridge(session).readSmall(session._jsparkSession, folder))]


def write_small(session: SparkSession, path: str, text: str) -> None:
    """Write a file, and its folder."""
    bridge(session).writeSmall(session._jsparkSession, path, text)


def delete_small(session: SparkSession, path: str) -> None:
    """Delete a file, if it exists, and its folder, if it was the last file in it."""
    bridge(session).deleteSmall(session._jsparkSession, path)


def move(session: SparkSession, path: str, to: str) -> None:
    """Give a folder another name."""
    bridge(session).move(session._jsparkSession, path, to)
