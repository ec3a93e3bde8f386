"""Half-made and half-dropped tables: how an intent describes them, and how they are completed or removed."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.catalog.accepted import knows, of_table, withdraw
from streamtable.catalog.definition import FORMATTED
from streamtable.catalog.entries import at_home
from streamtable.catalog.parts import ID, Part, calls_itself, is_believed
from streamtable.catalog.paths import HIDDEN, is_path
from streamtable.delta import ddl
from streamtable.delta.folders import LOG, children, delete_small, move, names
from streamtable.delta.tables import ALWAYS, NEVER, drop_files, drop_own, find_table, state
from streamtable.errors import HistoryLost, SourceUnavailable
from streamtable.jvm.storage import storage_failed
from streamtable.language.names import Name

__all__ = [
    "FOLDER",
    "ID",
    "Intent",
    "Kind",
    "Part",
    "beat_of",
    "calls_itself",
    "forget",
    "is_beside",
    "make_ordinary",
    "marked",
    "moved",
    "properties_at",
    "registered",
    "remove",
    "settle",
]

_log = logging.getLogger("streamtable.catalog")

FOLDER = "_streamtable_intents"
"""The folder of intents in the folder of a schema. It exists while a statement runs, or after one was killed."""

_OURS = re.compile(r"streamtable\.")
"""The properties of all that is ours, also of copies of a stream table."""


class Kind(str, Enum):
    """The operation that a statement is about to carry out."""

    CREATE = "CREATE"
    DROP = "DROP"
    RENAME = "RENAME"
    REPLACE = "CREATE OR REPLACE TABLE"


@dataclass(frozen=True)
class Intent:
    """The operation that is about to change the tables `parts`, the named one first. A RENAME has the table before and after, a
    REPLACE the stream table whose place an ordinary table takes.

    `statement` is the statement, `catalog` the catalog of the names, `by` the process, for people. `file` is the file of the
    intent, `seen` the time until which its process may have written, in milliseconds since 1970.
    """

    kind: Kind
    parts: tuple[Part, ...]
    statement: str
    catalog: str
    by: str
    file: str
    seen: int = field(default=ALWAYS, compare=False)

    @property
    def name(self) -> str:
        """Return the name that the statement gave."""
        return ".".join(self.parts[0].name)


def settle(spark: SparkSession, intent: Intent, *, failed: bool = False) -> bool:
    """Undo a CREATE that was not complete, finish a DROP or a REPLACE that had begun, and give a table its lost name back.

    A CREATE that `failed` is undone in any case, because its user saw the error. Return whether the statement is done; otherwise
    none of its effects is left. Raises SourceUnavailable while nobody can tell what is left.
    """
    first = intent.parts[0]
    match intent.kind:
        case Kind.REPLACE:
            done = make_ordinary(spark, first)
        case Kind.RENAME:
            named = registered(spark, first)
            done = not named and registered(spark, intent.parts[1])
            if not done:
                _move_back(spark, intent, named)
        case kind:
            undone = failed and kind is Kind.CREATE  # it may have failed before it made a folder
            named = registered(spark, first) and not undone
            for part in () if named else reversed(intent.parts):
                if not undone and part.beside and _is_away(spark, part.path):
                    raise _away(intent, part)
                if failed or is_beside(intent, part):  # what failed just now is this process's own intent
                    _unmake(spark, intent, part)
                elif is_believed(spark, part, properties_at(spark, part.path), find_table(spark, part.name)):
                    _unmake(spark, intent, replace(part, alone=False))
                else:
                    _log.warning(
                        "%s of %s leaves %s as it is: nothing says that the files are those of its table",
                        intent.kind.value,
                        ".".join(part.name),
                        part.path,
                    )
            done = named == (kind is Kind.CREATE)
    remove(spark, intent)
    return done


def _is_away(spark: SparkSession, path: str) -> bool:
    """Tell whether the storage of a path may be away: nothing is there, nor beside it. The intents of a schema are beside."""
    return not names(spark, path) and not names(spark, f"{path.rstrip('/').rpartition('/')[0]}/")


def _away(intent: Intent, part: Part) -> SourceUnavailable:
    reason = f"nothing is at {part.path}, nor beside it: it is unknown whether files of {'.'.join(part.name)} are left in storage"
    hint = f"make the storage readable again; the rest is done then. If none are left, delete {intent.file}"
    return SourceUnavailable(reason, hint=hint)


def moved(spark: SparkSession, intent: Intent) -> Part | None:
    """Return the table of a RENAME that is at its new place, and not at the old one, where the catalog may still have it."""
    before, after = intent.parts
    return after if _moves(intent) and not _there(spark, before) and _there(spark, after) else None


def _moves(intent: Intent) -> bool:
    before, after = intent.parts
    return before.path != after.path and is_beside(intent, before) and is_beside(intent, after)


def _move_back(spark: SparkSession, intent: Intent, named: bool) -> None:
    """Give a table the folder of its old name back, where a RENAME had moved the folder before the catalog knew.

    If the old name was dropped meanwhile, the folder goes back too: there doctor finds the table, which calls itself by this name.
    Raises SourceUnavailable while nobody can tell, because the table cannot be read in either place, and where something is in
    the place of the folder: it would be moved into that.
    """
    before, after = intent.parts
    then = f"the rest is done then{f'. Or forget the name: DROP STREAM TABLE {Name(before.name)}' if named else ''}"
    if not moved(spark, intent):
        if not named or not _moves(intent) or properties_at(spark, before.path):
            return
        reason = (
            f"the table {intent.name} can be read neither at {before.path} nor at {after.path}, where a RENAME may have moved it"
        )
        raise SourceUnavailable(reason, hint=f"make the storage readable again; {then}")
    if not named and not calls_itself(properties_at(spark, after.path), before.name):
        return
    if names(spark, before.path):
        reason = f"a RENAME moved the table {intent.name} to {after.path}, and another folder is in its place, {before.path}"
        raise SourceUnavailable(reason, hint=f"move away what is in {before.path}; {then}")
    move(spark, after.path, before.path)


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


def is_beside(intent: Intent, part: Part) -> bool:
    """Tell whether the table is in the folder that the intent was found in."""
    around, _, own = part.path.rpartition("/")
    return own not in ("", ".", "..") and f"{around}/{FOLDER}" == intent.file.rpartition("/")[0]


def _unmake(spark: SparkSession, intent: Intent, part: Part) -> None:
    """Remove the remains of a table. Another table at its place stays.

    A CREATE had its folder to itself while it ran: what came into a folder that a user chose after that is somebody's.
    """
    key, value = part.mark
    found = properties_at(spark, part.path)
    if found and found.get(key) != value:
        return
    if not is_path(part.name) and registered(spark, part):
        forget(spark, part.name)
    until = ALWAYS if part.alone else intent.seen if intent.kind is Kind.CREATE else NEVER
    drop_own(spark, part.path, until if found else NEVER)


def make_ordinary(spark: SparkSession, part: Part) -> bool:
    """Delete the hidden states of a stream table whose place an ordinary table took, and its definitions in the catalog, last.

    Return whether one took it: the table there has another id, whether it still has the name or was dropped meanwhile. Without the
    name, the table itself must tell of refreshes: CREATE OR REPLACE TABLE leaves the frontier in its log, and somebody may have
    written the intent. Raises SourceUnavailable while nobody can tell, because the table cannot be read.
    """
    located, (_, before) = find_table(spark, part.name), part.mark
    known = located.path == part.path and knows(of_table(located, before), FORMATTED)
    found = properties_at(spark, part.path)
    if not found and (known or LOG in names(spark, part.path) or _is_away(spark, part.path)):
        reason = f"the table at {part.path} cannot be read, so it is unknown whether it is the stream table {'.'.join(part.name)}"
        raise SourceUnavailable(reason, hint="make the storage readable again; the rest is done then")
    if found.get(ID, before) == before:
        return False
    told = known or state(spark, part.path).frontier is not None
    if told and not any(map(_OURS.match, found)):  # a stream table again has states of its own
        for folder in children(spark, part.path + HIDDEN):
            drop_files(spark, part.path, folder)
    if known:
        withdraw(spark, located, before)
    return told


def forget(spark: SparkSession, name: Sequence[str]) -> None:
    """Remove a name from the catalog; the files stay."""
    ddl.release(spark, name)
    with ddl.as_engine(spark):
        ddl.drop_name(at_home(spark), Name(tuple(name)))


def remove(spark: SparkSession, intent: Intent) -> None:
    delete_small(spark, beat_of(intent.file))
    delete_small(spark, intent.file)


def beat_of(file: str) -> str:
    return file.removesuffix(".json") + ".alive"
