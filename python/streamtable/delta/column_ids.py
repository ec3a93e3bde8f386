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
from streamtable.delta.summaries import commits
from streamtable.delta.tables import state

__all__ = ["other_column"]

_PHYSICAL = "delta.columnMapping.physicalName"


def other_column(session: SparkSession, path: str, since: int, columns: Collection[str]) -> str | None:
    """Return one of the columns, or a field in it, whose name stood for another one at a version or later."""
    latest = state(session, path)
    if latest.version <= since or _PHYSICAL not in latest.schema_json:
        return None
    changed = [each.schema_json for each in commits(session, path, since, latest.version, complete=False) if each.schema_json]
    if not changed:
        return None
    with translated(path):
        changed.append(bridge(session).columnsAt(session._jsparkSession, path, since))
    now, wanted = dict(_files(latest.schema_json)), {each.casefold() for each in columns}
    for place, name in (each for schema in changed for each in _files(schema)):
        if place[0] in wanted and now.get(place, name) != name:
            return ".".join(place)
    return None


def _files(schema_json: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the place of each column and field, and what the files call it."""
    return _parts(json.loads(schema_json), ())


def _parts(kind: Any, place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        here = (*place, field["name"].casefold())
        yield here, field["metadata"].get(_PHYSICAL, field["name"])
        yield from _parts(field["type"], here)
    for part in ("elementType", "keyType", "valueType"):
        yield from _parts(kind.get(part), (*place, part))
