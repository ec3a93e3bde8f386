"""Objects that are defined by a property of a Delta table: queues, publications, subscriptions, replication slots.

Each of their changes is a Delta commit, without a Spark job. They are entries of the catalog, with its names and rights, and need
no installation.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from streamtable.catalog.accepted import (
    NAME,
    accept,
    accepted,
    accepting,
    check,
    is_copy,
    knows,
    made_as,
    never_accepted,
    of_table,
)
from streamtable.catalog.definition import FORMATTED
from streamtable.catalog.dropping import drop_parts
from streamtable.catalog.entries import at_home, table_names
from streamtable.catalog.halves import ID, Part, marked, properties_at, registered
from streamtable.catalog.halves import Kind as Intended
from streamtable.catalog.intents import intended
from streamtable.catalog.kinds import KINDS, CatalogObject, Kind, unreadable
from streamtable.catalog.mounted import away
from streamtable.catalog.paths import is_path, vacant
from streamtable.catalog.restored import UNREADABLE
from streamtable.delta import ddl
from streamtable.delta.commit import Metadata, Transaction, commit
from streamtable.delta.tables import Located, TableState, find_table, state, versions
from streamtable.delta.unreadable import left_out
from streamtable.errors import SourceUnavailable, near_names
from streamtable.jvm.handles import catalog_of
from streamtable.language.names import Name, folded

__all__ = [
    "COLUMNS",
    "accept_definition",
    "change",
    "create",
    "drop",
    "every",
    "every_as",
    "find",
    "finish_rename",
    "free",
    "load",
    "make",
    "part_of",
    "rename",
    "renew_token",
    "wanted",
]

Made = TypeVar("Made")

_OF_PUBLISHERS = ("publication", "replication slot")
"""Objects of another catalog that subscribers read where they are, by their paths."""
COLUMNS = StructType([StructField("none", StringType())])
"""A table has to have a column."""


def create(
    spark: SparkSession,
    kind: Kind,
    name: Name,
    content: Mapping[str, Any],
    columns: StructType = COLUMNS,
    properties: Mapping[str, str] = {},
) -> CatalogObject:
    """Make the table of an object. Raises what `free` raises."""
    part = part_of(spark, kind, name, content)
    with intended(spark, Intended.CREATE, part):
        make(spark, kind, part, columns, properties)
    return load(spark, kind, name)


def part_of(spark: SparkSession, kind: Kind, name: Name, content: Mapping[str, Any]) -> Part:
    """Return the part of an intent for a new object. Raises what `free` raises."""
    located = free(spark, kind, name)
    return Part(located.name, vacant(spark, located.name), (kind.key, json.dumps(content)), token=uuid.uuid4().hex)


def make(spark: SparkSession, kind: Kind, part: Part, columns: StructType = COLUMNS, properties: Mapping[str, str] = {}) -> None:
    """Make the table of an object that has an intent. Its name and the accepted digest come last."""
    named = {kind.key: part.mark[1], NAME: json.dumps(list(part.name))}
    ddl.create(at_home(spark), part.path, columns, {**ddl.FEW_CHECKPOINTS, **properties, **named})
    if not is_path(part.name):
        code = kind.code(json.loads(part.mark[1]))
        ddl.register(spark, part.name, part.path, managed=True, accepted=accepted(code, part.token))


def renew_token(spark: SparkSession, kind: Kind, part: Part) -> None:
    """Give a new object another token than that of its intent, if the intent was in the folder of another schema."""
    if not is_path(part.name):
        with suppress(PySparkException, Py4JJavaError):  # an old token that stays does no harm by itself
            accept(spark, part.name, kind.code(json.loads(part.mark[1])))


def free(spark: SparkSession, kind: Kind, name: Name) -> Located:
    """Return the full name, which must be free. Raises the kind's `exists`."""
    located = find_table(spark, name.parts)
    full = ".".join(located.name)
    gone = located.kind == "delta" and versions(spark, [located.path]) == (None,)
    if located.kind != "none" and not (is_path(located.name) and gone):
        hint = _gone(located) if gone else f"choose another name, or DROP {kind.noun.upper()}"
        raise kind.exists(f"{full} exists already", hint=hint)
    return located


def _gone(located: Located) -> str:
    return f"its folder is gone: restore it, or forget the name by DROP TABLE {Name(located.name)}"


def find(spark: SparkSession, kind: Kind, name: Name) -> CatalogObject | None:
    """Return the object of a name, or None. A copy of an object is an ordinary table.

    Raises DefinitionNotAccepted for an object that the catalog has not accepted, DefinitionUnreadable.
    """
    located, found = _look(spark, name)
    if found is None or (kind.key not in found.properties and not knows(located, kind.key)):
        return None
    stored, how = _read(kind, located, found), f"ALTER {kind.noun.upper()} {Name(located.name)} ACCEPT DEFINITION"
    if knows(located, kind.key):
        check(located, kind.code(stored.content), how)
    elif is_copy(located, found.properties) and not (is_path(located.name) and kind.noun in _OF_PUBLISHERS):
        return None
    elif not is_path(located.name) and len(kind.code(stored.content)) > 1:  # of a slot there is nothing to accept
        raise never_accepted(located, kind.noun, how)
    return stored


def _look(spark: SparkSession, name: Name) -> tuple[Located, TableState | None]:
    """Look a name up. There is no state where no object can be, as of a stream table: a catalog may have many of those.

    Raises StorageFailed where its storage is away.
    """
    located = find_table(spark, name.parts)
    if knows(located, FORMATTED):
        return located, None
    try:
        found = state(spark, located.path) if located.kind == "delta" else None
    except SourceUnavailable as error:
        if failed := away(spark, located):
            raise failed from error
        found = None  # its files are gone: it is nobody's
    return of_table(located, found.table_id) if found else located, found


def _read(kind: Kind, located: Located, found: TableState) -> CatalogObject:
    try:
        content = dict(json.loads(found.properties.get(kind.key, "{}")))
    except UNREADABLE as error:
        raise unreadable(CatalogObject(kind, located.name, located.path, found.version, {}), error) from error
    return CatalogObject(kind, located.name, located.path, found.version, content)


def accept_definition(spark: SparkSession, kind: Kind, name: Name) -> CatalogObject:
    """Have the catalog accept the object in the log of its table. Raises what `load` raises for a copy, and `not_found`."""
    located, found = _look(spark, name)
    if found is None or kind.key not in found.properties or (is_copy(located, found.properties) and not located.accepted):
        return load(spark, kind, name)  # which says that there is none
    stored = _read(kind, located, found)
    if not is_path(located.name):
        accept(spark, located.name, kind.code(stored.content))
    return stored


def load(spark: SparkSession, kind: Kind, name: Name) -> CatalogObject:
    """Return the object of a name. Raises the kind's `not_found`, with near names."""
    if stored := find(spark, kind, name):
        return stored
    located, found = _look(spark, name)
    full = located.name
    if found is None and knows(located, kind.key):
        raise kind.not_found(f"there is no {kind.noun} {'.'.join(full)} any more", hint=_gone(located))
    known = [str(each) for each in every(spark, kind, full[:-1])] if catalog_of(spark).databaseExists(str(Name(full[:-1]))) else []
    near = near_names(".".join(full), known)
    raise kind.not_found(f"there is no {kind.noun} {'.'.join(full)}.{near}", hint=f"{kind.listed_by} lists them")


def wanted(spark: SparkSession, kind: Kind, name: Name, if_exists: bool) -> CatalogObject | None:
    """Return the object of a name for a statement with or without IF EXISTS. With it, a missing object is None."""
    return find(spark, kind, name) if if_exists else load(spark, kind, name)


def every_as(
    spark: SparkSession,
    kind: Kind,
    of: Callable[[CatalogObject], Made],
    namespace: Sequence[str] | None = None,
    besides: Container[Sequence[str]] = (),
) -> Iterator[Made]:
    """Yield `of` of each object that `every` yields. Unreadable objects are left out."""
    for stored in every(spark, kind, namespace, besides):
        made = list[Made]()
        with left_out(str(stored)):
            made.append(of(stored))
        yield from made


def every(
    spark: SparkSession, kind: Kind, namespace: Sequence[str] | None = None, besides: Container[Sequence[str]] = ()
) -> Iterator[CatalogObject]:
    """Yield the objects of a kind in a namespace, or in all. Unreadable tables are left out.

    `besides` are full names that are not looked at, as those of all stream tables.
    """
    for parts in table_names(spark, namespace):
        if parts in besides:
            continue
        stored = None
        with left_out(".".join(parts), reads_all=False):  # of a table of another kind it reads its kind alone
            stored = find(spark, kind, Name(parts))
        if stored:
            yield stored


def change(spark: SparkSession, stored: CatalogObject, content: Mapping[str, Any]) -> CatalogObject:
    """Replace the content. Raises ConcurrentRefresh if another process replaced it since it was read."""
    code = stored.kind.code(content)
    with accepting(spark, stored.name, code) if code != stored.kind.code(stored.content) else nullcontext():
        done = commit(
            spark,
            stored.path,
            stored.version,
            Transaction(stored.kind.key, stored.version + 1),
            metadata=Metadata(properties={stored.kind.key: json.dumps(content)}),
        )
    return replace(stored, version=done.version, content=content)


def rename(spark: SparkSession, stored: CatalogObject, to: Name) -> CatalogObject:
    """Give an object another name, and return it with that name."""
    located = free(spark, stored.kind, to)
    before = marked(spark, stored.name, stored.path)
    with intended(spark, Intended.RENAME, before, Part(located.name, vacant(spark, located.name), before.mark)):
        accept(spark, stored.name, stored.kind.code(stored.content), to=located.name)
        ddl.rename(spark, Name(stored.name), to)
        renamed = load(spark, stored.kind, to)
        return replace(renamed, version=_call_itself(spark, stored.kind.key, renamed.path, renamed.version, renamed.name))


def _call_itself(spark: SparkSession, key: str, path: str, version: int, name: Sequence[str]) -> int:
    """Record the name in the object's own table, and return the version of that. Without it, the object is a copy of another."""
    properties = {NAME: json.dumps(list(name))}
    return commit(spark, path, version, Transaction(key, version + 1), metadata=Metadata(properties=properties)).version


def finish_rename(spark: SparkSession, before: Part, after: Part) -> None:
    """Record the new name of an object that the catalog renamed, where the process was killed before it did."""
    if not registered(spark, after):
        return
    found = properties_at(spark, after.path)
    key = next((kind.key for kind in KINDS if kind.key in found), None)
    if key and found.get(ID) == after.mark[1] and folded(made_as(found) or ()) == folded(before.name):
        _call_itself(spark, key, after.path, state(spark, after.path).version, after.name)


def drop(spark: SparkSession, *stored: CatalogObject) -> None:
    """Drop an object, and the objects that depend on it."""
    drop_parts(spark, *(_dropping(spark, each) for each in stored))


def _dropping(spark: SparkSession, stored: CatalogObject) -> Part:
    """Return the part of an intent for an object that is dropped."""
    tokens = [each["token"] for each in find_table(spark, stored.name).accepted]
    return replace(marked(spark, stored.name, stored.path), token=tokens[-1] if tokens else "")
