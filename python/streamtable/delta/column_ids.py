"""Names that stood for another column: the history of a table is read by the names and types of now.

With column mapping, files know a column by a name of its own. A column that was dropped and added again has another such name, and
so has one that took the name of another by RENAME. What came under the name before would be NULL, or be of the other column.
Older files of a table that was replaced may have other types, and Spark cuts a number to a narrower one without an error. Those of
a table whose mapping was removed have other names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql import SparkSession

from streamtable.delta.bridge import bridge, translated
from streamtable.delta.commit_ids import is_same
from streamtable.delta.summaries import KEEP_COLUMNS, commits
from streamtable.delta.tables import Version, state
from streamtable.delta.widening import widens

__all__ = ["PHYSICAL", "NamesInFiles"]

PHYSICAL = "delta.columnMapping.physicalName"
"""The key in the metadata of a column under which the log says what the files call it."""


class _Stored(NamedTuple):
    """A column, a field or a part of a type as files have it. `type` is the kind alone of a type with parts."""

    name: str
    type: str
    nullable: bool

    def reads(self, before: _Stored) -> bool:
        """Tell whether the values of `before` are read rightly as this."""
        return self.name == before.name and self.nullable >= before.nullable and widens(before.type, self.type)


_Clean: TypeAlias = tuple[int, Version]
"""The first and the last of the versions among which no column was another one."""

_clean = dict[tuple[str, str, frozenset[str]], _Clean]()
"""What this process has looked at, by table and columns: a stream opens its table for each batch, and a log may be long."""

_REMEMBERED = 1000


class NamesInFiles:
    """The columns of a table that somebody reads."""

    def __init__(self, session: SparkSession, path: str, columns: Collection[str]) -> None:
        self._session, self._path = session, path
        self._wanted = frozenset(each.casefold() for each in columns)

    def other(self, since: int) -> str | None:
        """Return a column, or a part of it, that was another one at the version `since` or later: by its name in files or its type.

        Delta's widenings of types make no other column. Raises HistoryLost where the log does not tell.
        """
        latest = state(self._session, self._path)
        if latest.version <= since:
            return None
        of = (self._path, latest.table_id, self._wanted)
        clean = _clean.get(of)
        if clean and not (clean[0] <= since <= clean[1].number and is_same(self._session, self._path, clean[1], latest.latest)):
            clean = None
        if clean and clean[1].number == latest.version:
            return None
        now, before = dict(_files(latest.schema_json)), self._before(clean[1].number if clean else since, latest.version)
        for place, stored in before:
            if place in now and not now[place].reads(stored):
                return ".".join(place)
        if all(place in now for place, _ in before):  # else a column may come again under the name of one that went
            if len(_clean) >= _REMEMBERED:
                _clean.clear()
            _clean[of] = (clean[0] if clean else since, latest.latest)
        return None

    def _before(self, since: int, upto: int) -> list[tuple[tuple[str, ...], _Stored]]:
        """Return how files had the columns, at a version and after each change of columns up to another one."""
        changes = [each for each in commits(self._session, self._path, since, upto, complete=False) if each.schema_json]
        if not changes:
            return []
        schemas = [each.schema_json for each in changes if each.schema_json]
        if changes[0].operation not in (*KEEP_COLUMNS, "ADD COLUMNS"):  # else those before it are among those after it
            with translated(self._path):
                schemas.append(bridge(self._session).columnsAt(self._session._jsparkSession, self._path, since))
        return [(place, stored) for schema in schemas for place, stored in _files(schema) if place[0] in self._wanted]


def _files(schema_json: str) -> Iterator[tuple[tuple[str, ...], _Stored]]:
    """Yield the place of each column, field and part, and how files have it."""
    return _parts(json.loads(schema_json), ())


_PARTS = (("elementType", "containsNull"), ("keyType", ""), ("valueType", "valueContainsNull"))
"""The parts of arrays and maps, and what tells whether there may be NULLs in them."""


def _parts(kind: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Stored]]:
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        name = field["metadata"].get(PHYSICAL, field["name"])
        yield from _whole(field["type"], (*place, field["name"].casefold()), name, field["nullable"])
    for part, nullable in _PARTS:
        if part in kind:
            yield from _whole(kind[part], (*place, part), part, kind.get(nullable, False))


def _whole(kind: Any, place: tuple[str, ...], name: str, nullable: bool) -> Iterator[tuple[tuple[str, ...], _Stored]]:
    yield place, _Stored(name, kind["type"] if isinstance(kind, dict) else kind, nullable)
    yield from _parts(kind, place)
