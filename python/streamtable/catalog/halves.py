"""Half-made and half-dropped tables: how an intent describes them, and how they are completed or removed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import at_home
from streamtable.catalog.paths import is_path
from streamtable.delta.folders import delete_small, move
from streamtable.delta.tables import drop_own, find_table, release, state
from streamtable.errors import HistoryLost, SourceUnavailable, StreamTableError
from streamtable.jvm.handles import local_property
from streamtable.jvm.storage import storage_failed
from streamtable.language.names import Name

__all__ = [
    "ENGINE",
    "FOLDER",
    "ID",
    "Intent",
    "Kind",
    "Part",
    "beat_of",
    "forget",
    "marked",
    "properties_at",
    "registered",
    "remove",
    "settle",
]

FOLDER = "_streamtable_intents"
"""The folder of intents in the folder of a schema. It exists while a statement runs, or after one was killed."""

ENGINE = "streamtable.engine"
"""The property under which Spark's own DDL may touch a stream table: the check rule refuses it to everybody else."""

_OBJECT = re.compile(r"streamtable\.object\.(?!queue$)")
"""The property of an object that has no rows."""


class Kind(str, Enum):
    """The operation that a statement is about to carry out."""

    CREATE = "CREATE"
    DROP = "DROP"
    RENAME = "RENAME"


ID = "id"
"""The mark of a table without a marking property: the id that Delta gave the table."""


@dataclass(frozen=True)
class Part:
    """A table of an intent. `mark` identifies it: a property and its value, or ID and the id that Delta gave the table.

    `alone`: no other table uses its folder, so files of Delta that no commit names are its own too.
    """

    name: tuple[str, ...]
    path: str
    mark: tuple[str, str]
    alone: bool = True


@dataclass(frozen=True)
class Intent:
    """The operation that is about to change the tables `parts`, the named one first. A RENAME has the table before and after.

    `statement` is the statement, `catalog` the catalog of the names, `by` the process, for people. `file` is the file of the
    intent.
    """

    kind: Kind
    parts: tuple[Part, ...]
    statement: str
    catalog: str
    by: str
    file: str

    @property
    def name(self) -> str:
        """Return the name that the statement gave."""
        return ".".join(self.parts[0].name)


def settle(spark: SparkSession, intent: Intent, *, failed: bool = False) -> bool:
    """Undo a CREATE that was not complete, finish a DROP that had begun, and give a table its lost name back.

    A CREATE that `failed` is undone in any case, because its user saw the error. Return whether the statement is done; otherwise
    none of its effects is left.
    """
    first, *others = intent.parts
    named = registered(spark, first) and not (failed and intent.kind is Kind.CREATE)
    if intent.kind is not Kind.RENAME:
        for part in () if named else reversed(intent.parts):
            if _believed(spark, intent, part):
                _unmake(spark, part)
    elif (
        named and _at_home(intent, first) and _at_home(intent, others[0]) and not _there(spark, first) and _there(spark, others[0])
    ):
        move(spark, others[0].path, first.path)
    remove(spark, intent)
    return named == (intent.kind is Kind.CREATE)


def registered(spark: SparkSession, part: Part) -> bool:
    """Tell whether the catalog has the table, whatever is left of its files. A table without a name exists with its files."""
    if is_path(part.name):
        return _there(spark, part)
    return find_table(spark, part.name).path == part.path


def _there(spark: SparkSession, part: Part) -> bool:
    key, value = part.mark
    return properties_at(spark, part.path).get(key) == value


def marked(spark: SparkSession, name: Sequence[str], path: str) -> Part:
    """Return the part of an intent for an existing table."""
    return Part(tuple(name), path, (ID, state(spark, path).table_id))


def properties_at(spark: SparkSession, path: str) -> Mapping[str, str]:
    """Return the properties of the table at a path; none for a missing or half-made table."""
    try:
        found = state(spark, path)
    except (SourceUnavailable, HistoryLost, Py4JJavaError, CapturedException) as error:
        if storage_failed(error):
            raise
        return {}
    return {**found.properties, ID: found.table_id}


def _at_home(intent: Intent, part: Part) -> bool:
    """Tell whether the table is in the folder that the intent was found in."""
    return f"{part.path.rpartition('/')[0]}/{FOLDER}" == intent.file.rpartition("/")[0]


def _believed(spark: SparkSession, intent: Intent, part: Part) -> bool:
    """Tell whether to trust an intent. Anybody who may write into the folder of a schema can write one, and can do harm there
    anyway.

    For a table elsewhere, the table itself must have the name, and the catalog must not know it. An object does not know its
    name, and has no rows to lose.
    """
    if _at_home(intent, part):
        return True
    found = properties_at(spark, part.path)
    if any(map(_OBJECT.match, found)):
        return True
    try:
        definition = Definition.of(found)
    except StreamTableError:
        return False
    says_so = not found or (definition is not None and definition.statement.name.parts == part.name)
    return says_so and not registered(spark, part)


def _unmake(spark: SparkSession, part: Part) -> None:
    """Remove the remains of a table. Another table at its place stays."""
    key, value = part.mark
    found = properties_at(spark, part.path)
    if found and found.get(key) != value:
        return
    if not is_path(part.name) and registered(spark, part):
        forget(spark, part.name)
    drop_own(spark, part.path, part.alone and bool(found))


def forget(spark: SparkSession, name: Sequence[str]) -> None:
    """Remove a name from the catalog; the files stay."""
    release(spark, name)
    with local_property(spark, ENGINE, "true"):
        at_home(spark).sql(f"DROP TABLE IF EXISTS {Name(tuple(name))}")


def remove(spark: SparkSession, intent: Intent) -> None:
    delete_small(spark, beat_of(intent.file))
    delete_small(spark, intent.file)


def beat_of(file: str) -> str:
    return file.removesuffix(".json") + ".alive"
