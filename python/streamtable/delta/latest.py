"""The latest versions of tables. On this machine's disk a new commit is found by the name of its file: no call of Java, no list."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import uniform
from time import monotonic, time_ns

from pyspark.sql import SparkSession

from streamtable.delta.folders import LOG
from streamtable.delta.tables import Version
from streamtable.delta.unreadable import Unreadable, versions_or_why

__all__ = ["LatestVersions", "committed_after"]

KNOWN_FOR = 30.0, 60.0
"""Between so many seconds a version is known by files alone. Each one has a time of its own, because to read all versions of many
tables at once takes long."""

_LOCAL = re.compile(r"(?:file:)?/+(?P<folder>.*)", re.DOTALL)


def committed_after(path: str, version: int) -> bool:
    """Tell whether the table at `path` has the commit after `version`.

    False may mean that nobody knows: other storages are not asked, and a catalog may keep the last commits of a table elsewhere.
    """
    commit = _commit(path, version + 1)
    return commit is not None and os.path.exists(commit)  # noqa: PTH110 - a Path raises an error for a forbidden folder


def _commit(path: str, version: int) -> str | None:
    """Return the file of a commit of a table on this machine's disk."""
    local = _LOCAL.fullmatch(path)
    return None if local is None else f"/{local['folder'].rstrip('/')}/{LOG}/{version:020d}.json"


def _stamp(file: str) -> tuple[int, ...] | None:
    """Return what tells a file from another one of its name; None if nobody can read it."""
    try:
        found = os.stat(file)  # noqa: PTH116 - at each look for each table
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@dataclass(frozen=True)
class _Known:
    """A version whose commit is a file with a stamp; `after` is the file of the next commit. It is believed `until` a time."""

    version: Version
    commit: str
    stamp: tuple[int, ...]
    after: str
    until: float

    @classmethod
    def of(cls, path: str, version: Version, now: float, began: int) -> _Known | None:
        """Return what is known; None in other storages, without the file, and where the file may be of another table.

        That is so where it was written since the read `began`, in nanoseconds since 1970: the table may have been made again.
        """
        commit, after = _commit(path, version.number), _commit(path, version.number + 1)
        if commit is None or after is None or (stamp := _stamp(commit)) is None or max(stamp[-2:]) >= began:
            return None
        return cls(version, commit, stamp, after, now + uniform(*KNOWN_FOR))  # noqa: S311 - nobody is to be kept from guessing

    def holds(self, now: float) -> bool:
        """Tell whether it is still the latest version, and of the same table."""
        return now < self.until and _stamp(self.commit) == self.stamp and not os.path.exists(self.after)  # noqa: PTH110


class LatestVersions:
    """Reads latest versions as `versions_or_why` does, and remembers those of tables on this machine's disk.

    A version is read again when the table has another commit, or its last one is another file: another table may have been made at
    the path. After a while it is read again in any case.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def __call__(self, session: SparkSession, paths: Sequence[str]) -> tuple[Version | Unreadable | None, ...]:
        now, before = monotonic(), self._known  # it is never changed but replaced: another thread may ask meanwhile
        known = {path: found.version for path in paths if (found := before.get(path)) and found.holds(now)}
        others, began = [path for path in paths if path not in known], time_ns()
        read = dict(zip(others, versions_or_why(session, others), strict=True)) if others else {}
        if read:
            kept = {path: found for path, found in before.items() if now < found.until and path not in read}
            new = {path: _Known.of(path, found, now, began) for path, found in read.items() if isinstance(found, Version)}
            self._known = kept | {path: found for path, found in new.items() if found}
        return tuple(known.get(path) or read[path] for path in paths)
