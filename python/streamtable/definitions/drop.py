"""DROP STREAM TABLE, with CASCADE also of its readers.

If the folder of a table is gone, its log is unreadable, or another table is in its place, only the name is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from streamtable.catalog.accepted import knows, made_as, of_table
from streamtable.catalog.definition import FORMATTED, Definition
from streamtable.catalog.dropping import drop_parts
from streamtable.catalog.entries import load, readers_named
from streamtable.catalog.halves import ID, Kind, Part, calls_itself, forget, moved, properties_at
from streamtable.catalog.intents import dead
from streamtable.catalog.mounted import away
from streamtable.catalog.paths import home_of, name_at
from streamtable.definitions.create import Dropped
from streamtable.delta.folders import names
from streamtable.delta.tables import Located, TableState, find_table, state
from streamtable.errors import (
    DefinitionNotAccepted,
    DefinitionUnreadable,
    DependentsExist,
    NotSupported,
    StorageFailed,
    StreamTableError,
)
from streamtable.jvm.failures import cancelled
from streamtable.jvm.storage import storage_failed
from streamtable.language.stream_table.ast import DropStreamTable

__all__ = ["drop", "is_alone"]


def drop(spark: SparkSession, statement: DropStreamTable) -> list[Dropped]:
    """Drop the stream table and its files. With CASCADE, drop its readers first."""
    located = find_table(spark, statement.name.parts)
    if statement.if_exists and located.kind == "none":
        return []
    found, definition = _found(spark, located), None
    if not knows(of_table(located, found.table_id) if found else located, FORMATTED):
        load(spark, statement.name)  # which says that it is no stream table
    if found:
        with suppress(DefinitionNotAccepted, DefinitionUnreadable, NotSupported):
            definition = load(spark, statement.name).definition
    full = ".".join(located.name)
    readers = readers_named(spark, located, definition)
    if readers and not statement.cascade:
        told = ", ".join(".".join(name.parts) for name in readers)
        raise DependentsExist(f"{full} is read by {told}", hint=f"DROP STREAM TABLE {statement.name} CASCADE drops them too")
    dropped = [each for reader in readers for each in drop(spark, DropStreamTable(reader, True, cascade=True))]
    return [*dropped, Dropped(full, _drop_one(spark, located, found, definition))]


def _found(spark: SparkSession, located: Located) -> TableState | None:
    """Return the state of the table; None for a missing or unreadable table. Raises StorageFailed where its storage is away."""
    if located.kind != "delta":
        return None
    try:
        return state(spark, located.path)
    except (StreamTableError, Py4JJavaError, CapturedException) as error:
        if isinstance(error, StorageFailed) or cancelled(error) or storage_failed(error):
            raise
        if failed := away(spark, located):
            raise failed from error
        return None


def _drop_one(spark: SparkSession, located: Located, found: TableState | None, definition: Definition | None) -> tuple[str, ...]:
    """Drop the table, or its name alone, and return the paths that are left."""
    if found is None or (definition is None and _is_second_name(spark, located, found)):
        left = [path for part in _moved(spark, located) for path in drop_parts(spark, part)]
        forget(spark, located.name)
        return (*left, *((located.path,) if names(spark, located.path) else ()))
    return drop_parts(spark, Part(located.name, located.path, (ID, found.table_id), is_alone(definition)))


def is_alone(definition: Definition | None) -> bool:
    """Tell whether a stream table is known to have its folder to itself."""
    return definition is not None and definition.has_own_folder


def _moved(spark: SparkSession, located: Located) -> Iterator[Part]:
    """Yield the table where a killed RENAME left its folder, if something in its place keeps it from going back."""
    for intent in dead(spark, home_of(spark, located.name)):
        of_it = intent.kind is Kind.RENAME and intent.parts[0].path == located.path
        part = moved(spark, intent) if of_it else None
        if part and calls_itself(properties_at(spark, part.path), located.name):  # somebody may have written the intent
            yield replace(part, name=name_at(part.path).parts)


def _is_second_name(spark: SparkSession, located: Located, found: TableState) -> bool:
    """Tell whether the table is, by its own definition, another existing stream table at the same place."""
    made = made_as(found.properties)
    if made is None or [each.casefold() for each in made] == [each.casefold() for each in located.name]:
        return False
    original = find_table(spark, made)
    return original.path == located.path and knows(of_table(original, found.table_id), FORMATTED)
