"""Names that stood for another column: the history of a table is read by the names of now.

With column mapping, files know a column by a name of its own. A column that was dropped and added again has another such name, and
so has one that took the name of another by RENAME. What came under the name before would be NULL, or be of the other column.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from pyspark.sql import SparkSession

from streamtable.delta.bridge import bridge, translated
from streamtable.delta.summaries import KEEP_COLUMNS, commits
from streamtable.delta.tables import state

__all__ = ["PHYSICAL", "NamesInFiles"]

PHYSICAL = "delta.columnMapping.physicalName"
"""The key in the metadata of a column under which the log says what the files call it."""


class NamesInFiles:
    """The columns of a table that somebody reads. It remembers the versions that it has looked at."""

    def __init__(self, session: SparkSession, path: str, columns: Collection[str]) -> None:
        self._session, self._path = session, path
        self._wanted = {each.casefold() for each in columns}
        self._clean = (0, -1)

    def other(self, since: int) -> str | None:
        """Return a column, or a field in it, whose name stood for another one at the version `since` or later.

        Raises HistoryLost where the log does not tell.
        """
        latest = state(self._session, self._path)
        if latest.version <= since or PHYSICAL not in latest.schema_json:
            return None
        first, last = self._clean
        known = first <= since <= last
        if known and last == latest.version:
            return None
        now, before = dict(_files(latest.schema_json)), self._before(last if known else since, latest.version)
        for place, name in before:
            if now.get(place, name) != name:
                return ".".join(place)
        if all(place in now for place, _ in before):  # else a column may come again under the name of one that went
            self._clean = (first if known else since, latest.version)
        return None

    def _before(self, since: int, upto: int) -> list[tuple[tuple[str, ...], str]]:
        """Return what files called the columns, at a version and after each change of columns up to another one."""
        changes = [each for each in commits(self._session, self._path, since, upto, complete=False) if each.schema_json]
        if not changes:
            return []
        schemas = [each.schema_json for each in changes if each.schema_json]
        if changes[0].operation not in KEEP_COLUMNS:  # else those before it are the same
            with translated(self._path):
                schemas.append(bridge(self._session).columnsAt(self._session._jsparkSession, self._path, since))
        return [(place, name) for schema in schemas for place, name in _files(schema) if place[0] in self._wanted]


def _files(schema_json: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place of each column and field, and what the files call it."""
    return _parts(json.loads(schema_json), ())


def _parts(kind: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        here = (*place, field["name"].casefold())
        yield here, field["metadata"].get(PHYSICAL, field["name"])
        yield from _parts(field["type"], here)
    for part in ("elementType", "keyType", "valueType"):
        yield from _parts(kind.get(part), (*place, part))
