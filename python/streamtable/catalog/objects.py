"""Objects that are defined by a property of a Delta table: queues, publications, subscriptions, replication slots.

Each of their moves is a Delta commit, which costs no Spark job; they have their place in the catalog, with its names and rights,
and nothing has to be installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from streamtable.catalog.dropping import drop_parts
from streamtable.catalog.entries import at_home, table_names
from streamtable.catalog.halves import Kind as Intended
from streamtable.catalog.halves import Part, marked
from streamtable.catalog.intents import intended
from streamtable.catalog.paths import is_path, vacant
from streamtable.delta.commit import commit
from streamtable.delta.tables import Located, locate, register, state, versions
from streamtable.delta.unreadable import left_out
from streamtable.errors import InvalidStatement, SourceUnavailable, near_names
from streamtable.handles import catalog_of
from streamtable.sql.statements import Name

__all__ = [
    "COLUMNS",
    "Kind",
    "Stored",
    "change",
    "create",
    "drop",
    "every",
    "find",
    "free",
    "is_one",
    "load",
    "make",
    "named_by_some",
    "part_of",
    "rename",
    "wanted",
]

_PREFIX = "streamtable.object."
COLUMNS = StructType([StructField("none", StringType())])
"""A table has to have a column."""


@dataclass(frozen=True)
class Kind:
    """What an object is; `noun` is what people read, `listed_by` what shows all of the kind."""

    noun: str
    listed_by: str
    exists: type[InvalidStatement]
    not_found: type[InvalidStatement]

    @property
    def key(self) -> str:
        """Return the property that every table of the kind has."""
        return _PREFIX + self.noun.replace(" ", "_")


@dataclass(frozen=True)
class Stored:
    """An object as its table tells it at `version`; `content` is what its property holds."""

    kind: Kind
    name: tuple[str, ...]
    path: str
    version: int
    content: Mapping[str, Any]

    def __str__(self) -> str:
        return ".".join(self.name)


def create(
    spark: SparkSession,
    kind: Kind,
    name: Name,
    content: Mapping[str, Any],
    columns: StructType = COLUMNS,
    properties: Mapping[str, str] = {},
) -> Stored:
    """Make the table of an object. Raises what `free` raises."""
    part = part_of(spark, kind, name, content)
    with intended(spark, Intended.CREATE, part):
        make(spark, part, columns, properties)
    return load(spark, kind, name)


def part_of(spark: SparkSession, kind: Kind, name: Name, content: Mapping[str, Any]) -> Part:
    """Return what an intent says of an object that is to be made. Raises what `free` raises."""
    located = free(spark, kind, name)
    return Part(located.name, vacant(spark, located.name), (kind.key, json.dumps(content)))


def make(spark: SparkSession, part: Part, columns: StructType = COLUMNS, properties: Mapping[str, str] = {}) -> None:
    """Make the table of an object, of which an intent tells; its name comes last."""
    builder = DeltaTable.create(at_home(spark)).addColumns(columns).location(part.path)
    for key, value in {"delta.checkpointInterval": "100", **properties, part.mark[0]: part.mark[1]}.items():
        builder.property(key, value)
    builder.execute()
    if not is_path(part.name):
        register(spark, part.name, part.path, managed=True)


def free(spark: SparkSession, kind: Kind, name: Name) -> Located:
    """Return the full name, which nothing has. Raises the kind's `exists`."""
    located = locate(spark, name.parts)
    if located.kind != "none" and not (is_path(located.name) and versions(spark, [located.path]) == (None,)):
        raise kind.exists(f"{'.'.join(located.name)} exists already", hint=f"choose another name, or DROP {kind.noun.upper()}")
    return located


def find(spark: SparkSession, kind: Kind, name: Name) -> Stored | None:
    """Return the object of a name, if there is one."""
    located = locate(spark, name.parts)
    if located.kind != "delta":
        return None
    try:
        found = state(spark, located.path)
    except SourceUnavailable:  # its files are gone: it is nobody's
        return None
    text = found.properties.get(kind.key)
    return None if text is None else Stored(kind, located.name, located.path, found.version, json.loads(text))


def load(spark: SparkSession, kind: Kind, name: Name) -> Stored:
    """Return the object of a name. Raises the kind's `not_found`, with near names."""
    if stored := find(spark, kind, name):
        return stored
    full = locate(spark, name.parts).name
    known = [str(each) for each in every(spark, kind, full[:-1])] if catalog_of(spark).databaseExists(str(Name(full[:-1]))) else []
    near = near_names(".".join(full), known)
    raise kind.not_found(f"there is no {kind.noun} {'.'.join(full)}.{near}", hint=f"{kind.listed_by} lists them")


def wanted(spark: SparkSession, kind: Kind, name: Name, if_exists: bool) -> Stored | None:
    """Return the object of a name for a statement that says IF EXISTS, or does not: what is not there is None then."""
    return find(spark, kind, name) if if_exists else load(spark, kind, name)


def every(spark: SparkSession, kind: Kind, namespace: Sequence[str] | None = None) -> Iterator[Stored]:
    """Yield the objects of a kind in a namespace, or in all; a table that cannot be read is left out."""
    for parts in table_names(spark, namespace):
        stored = None
        with left_out(".".join(parts)):
            stored = find(spark, kind, Name(parts))
        if stored:
            yield stored


def named_by_some(spark: SparkSession, name: tuple[str, ...]) -> bool:
    """Tell whether an object of any kind may be about a table: its text has the table's own name, or that of its schema."""
    own = {part.casefold() for part in name[-2:]}
    for parts in table_names(spark):
        with left_out(".".join(parts)):
            located = locate(spark, parts)
            if located.kind == "delta":
                texts = (text.casefold() for key, text in state(spark, located.path).properties.items() if key.startswith(_PREFIX))
                if any(part in text for text in texts for part in own):
                    return True
    return False


def is_one(properties: Mapping[str, str]) -> bool:
    """Tell whether a table with these properties is an object: nothing to be published."""
    return any(key.startswith(_PREFIX) for key in properties)


def change(spark: SparkSession, stored: Stored, content: Mapping[str, Any]) -> Stored:
    """Replace the content. Raises ConcurrentRefresh when somebody else did so since."""
    done = commit(
        spark,
        stored.path,
        read_version=stored.version,
        application=stored.kind.key,
        number=stored.version + 1,
        properties={stored.kind.key: json.dumps(content)},
    )
    return replace(stored, version=done.version, content=content)


def rename(spark: SparkSession, stored: Stored, to: Name) -> Stored:
    """Give an object another name, and return it under that."""
    located = free(spark, stored.kind, to)
    before = marked(spark, stored.name, stored.path)
    with intended(spark, Intended.RENAME, before, Part(located.name, vacant(spark, located.name), before.mark)):
        spark.sql(f"ALTER TABLE {Name(stored.name)} RENAME TO {to}")
    return load(spark, stored.kind, to)


def drop(spark: SparkSession, *stored: Stored) -> None:
    """Forget an object, and others that go with it."""
    drop_parts(spark, *(marked(spark, each.name, each.path) for each in stored))
