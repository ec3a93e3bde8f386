"""The tables of an intent, and which of them are trusted.

Anybody who can write into the folder of a schema can write an intent there, and can do harm there anyway. Of what is elsewhere, the
table itself or the catalog must say that it is the table of the intent. A copy says all that the table says, and is elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.catalog.accepted import made_as
from streamtable.catalog.definition import IDENTITY, Definition
from streamtable.catalog.kinds import KINDS, QUEUE, SLOT
from streamtable.catalog.paths import is_path, without_links
from streamtable.delta.folders import table_around
from streamtable.delta.tables import Located, place
from streamtable.errors import StreamTableError
from streamtable.jvm.storage import storage_failed
from streamtable.language.names import folded

__all__ = ["ID", "MARKS", "Part", "calls_itself", "is_believed"]

ID = "id"
"""The mark of a table without a marking property: the id that Delta gave the table."""

MARKS = frozenset({ID, IDENTITY, *(kind.key for kind in KINDS)})
"""The properties that can identify a table. Others may have the same value in many tables."""

_WITHOUT_ROWS = frozenset(kind.key for kind in KINDS if kind is not QUEUE)


@dataclass(frozen=True)
class Part:
    """A table of an intent. `mark` identifies it: a property and its value, or ID and the id that Delta gave the table.

    `alone`: no other table uses its folder, so files of Delta that no commit names are its own too. `beside`: when the statement
    began, something lay beside the folder, so that an empty place says that its storage is away. `token`: of an object, the token
    of its digest in the catalog, which nobody learns in a folder.
    """

    name: tuple[str, ...]
    path: str
    mark: tuple[str, str]
    alone: bool = True
    beside: bool = True
    token: str = ""


def is_believed(spark: SparkSession, part: Part, found: Mapping[str, str], located: Located) -> bool:
    """Tell whether to trust an intent for a table elsewhere: `found` are the properties at its path, `located` is its name.

    A table with a name is trusted if it is an object, and the intent has its token. Where another table has the name, nothing is
    trusted. Without a name, an object must be in the folder of that name, a stream table at the LOCATION of its own definition, and
    half a table in no folder of another one. A path is trusted as the name of a slot that was made by this path.
    """
    if found and is_path(part.name):
        here = part.path in (part.name[-1], located.path)
        return here and SLOT.key in found and folded(made_as(found) or ()) == folded(part.name)
    is_object = not _WITHOUT_ROWS.isdisjoint(found)
    if located.kind != "none" and not is_path(part.name):
        known = located.path == part.path and is_object
        return known and bool(part.token) and part.token in [each["token"] for each in located.accepted]
    if not found:
        return table_around(spark, without_links(part.path.rstrip("/").rpartition("/")[0])) is None
    if is_object:
        return _is_placed(spark, part, None)
    definition = _called(found, part.name)
    location = definition.statement.location if definition else None
    return location is not None and _is_placed(spark, part, location)


def calls_itself(properties: Mapping[str, str], name: Sequence[str]) -> bool:
    """Tell whether a stream table has a name by its own definition."""
    return _called(properties, name) is not None


def _called(properties: Mapping[str, str], name: Sequence[str]) -> Definition | None:
    """Return the definition of a stream table that has a name by it."""
    try:
        definition = Definition.of(properties)
    except StreamTableError:
        return None
    return definition if definition and definition.statement.name.parts == tuple(name) else None


def _is_placed(spark: SparkSession, part: Part, location: str | None) -> bool:
    """Tell whether a table is where its name and its LOCATION put it. A schema that is not there puts no table anywhere."""
    try:
        return place(spark, part.name, location) == part.path
    except (Py4JJavaError, CapturedException) as error:
        if storage_failed(error):
            raise
        return False
