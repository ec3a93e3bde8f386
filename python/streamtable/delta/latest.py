"""The latest versions of tables. On this machine's disk a new commit is found by the name of its file: no call of Java, no list."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from pyspark.sql import SparkSession

from streamtable.delta.folders import LOG
from streamtable.delta.tables import Version
from streamtable.delta.unreadable import Unreadable, versions_or_why

__all__ = ["LatestVersions", "committed_after"]

_LOCAL = re.compile(r"(?:file:)?/+(?P<folder>.*)", re.DOTALL)


def committed_after(path: str, version: int) -> bool:
    """Tell whether the table at `path` has the commit after `version`.

    False may mean that nobody knows: other storages are not asked, and a catalog may keep the last commits of a table elsewhere.
    """
    local = _LOCAL.fullmatch(path)
    if local is None:
        return False
    commit = f"/{local['folder'].rstrip('/')}/{LOG}/{version + 1:020d}.json"
    return os.path.exists(commit)  # noqa: PTH110 - a Path raises an error for a forbidden folder


class LatestVersions:
    """Reads latest versions as `versions_or_why` does, and remembers those of tables on this machine's disk.

    A version is read again when the table has another commit, or after `forget`: another table may have been made at the path.
    """

    def __init__(self) -> None:
        self._known: dict[str, Version] = {}

    def __call__(self, session: SparkSession, paths: Sequence[str]) -> tuple[Version | Unreadable | None, ...]:
        known = {path: self._known[path] for path in paths if path in self._known}
        known = {path: version for path, version in known.items() if not committed_after(path, version.number)}
        others = [path for path in paths if path not in known]
        found = dict(zip(others, versions_or_why(session, others), strict=True)) if others else {}
        for path, version in found.items():
            self._known.pop(path, None)
            if isinstance(version, Version) and _LOCAL.fullmatch(path):
                self._known[path] = version
        return tuple(known.get(path) or found[path] for path in paths)

    def forget(self) -> None:
        """Read all versions again."""
        self._known.clear()
