"""What Spark's own statements do not know of stream tables: DROP SCHEMA ... CASCADE, CREATE OR REPLACE TABLE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from streamtable.catalog.accepted import knows
from streamtable.catalog.definition import FORMATTED
from streamtable.catalog.dropping import drop_parts
from streamtable.catalog.entries import Entry, entries, find, listed, readers_named, table_names
from streamtable.catalog.halves import Kind, Part, make_ordinary, marked
from streamtable.catalog.intents import carrying_out, intended
from streamtable.catalog.mounted import home_away
from streamtable.catalog.paths import home_of
from streamtable.definitions.checks import check_source_ddl
from streamtable.definitions.drop import is_alone
from streamtable.definitions.settle import settle_schema
from streamtable.delta.folders import names
from streamtable.delta.tables import Located, find_table
from streamtable.delta.unreadable import Unreadable, left_out
from streamtable.errors import DependentsExist, InternalError
from streamtable.language.names import Name

__all__ = ["accompany"]


def accompany(spark: SparkSession, operation: str, name: Sequence[str], statement: Callable[[], object]) -> list[tuple[str, str]]:
    """Carry out a statement of Spark, and what belongs to it; return its rows. Raises what speaks against it."""
    match operation:
        case "DROP SCHEMA":
            return _drop_schema(spark, tuple(name), statement)
        case "CREATE OR REPLACE TABLE":
            with carrying_out(f"{operation} {Name(tuple(name))}"):
                _replace(spark, tuple(name), statement)
            return []
        case other:
            raise InternalError(f"{other} is no statement that is accompanied")


def _replace(spark: SparkSession, name: tuple[str, ...], statement: Callable[[], object]) -> None:
    """Make an ordinary table of a stream table that no other reads, and leave nothing of it: no hidden state, no definition."""
    list(settle_schema(spark, name))
    located, entry = find(spark, Name(name))
    if entry is None:  # another session has dropped it meanwhile
        statement()
        return
    if readers := readers_named(spark, located, entry.definition):
        raise DependentsExist(
            f"{'.'.join(name)} is a stream table, and is read by {', '.join('.'.join(each.parts) for each in readers)}",
            hint="drop what reads it first, or give it another query: CREATE OR REPLACE STREAM TABLE",
        )
    part = marked(spark, located.name, located.path)
    with intended(spark, Kind.REPLACE, part):
        statement()
        make_ordinary(spark, part)


def _drop_schema(spark: SparkSession, schema: tuple[str, ...], statement: Callable[[], object]) -> list[tuple[str, str]]:
    """Drop a schema; return its stream tables, with those of other schemas that read them, and with files that stay.

    Raises StorageFailed where its storage is away: the files would stay, and nobody would know of them.
    """
    if failed := home_away(spark, (*schema, "")):
        raise failed
    list(settle_schema(spark, (*schema, "")))
    inside = {find_table(spark, name.parts).path: (name, found) for name, found in listed(spark, schema)}
    others = [entry for entry in entries(spark) if entry.path not in inside]
    check_source_ddl(spark, "DROP SCHEMA", ".".join(schema), lambda: _readers(others, set(_places(spark, schema))))
    if schema[-1].casefold() != "default":  # Spark refuses to drop it
        _drop_ours(spark, schema, {path: found for path, (_, found) in inside.items()})
    statement()
    return [
        (".".join(name.parts), _dropped(spark, path, found, _readers(others, {path}))) for path, (name, found) in inside.items()
    ]


def _drop_ours(spark: SparkSession, schema: tuple[str, ...], tables: Mapping[str, Entry | Unreadable]) -> None:
    """Drop what is ours in the folder of a schema, before Spark drops the schema: Spark deletes files in any order.

    `tables` are its stream tables by path. What nobody can read is left to Spark.
    """
    home, parts = home_of(spark, (*schema, "")), list[Part]()
    for name in table_names(spark, schema):
        with left_out(".".join(name)):
            located = find_table(spark, name)
            if located.accepted and located.path.rpartition("/")[0] == home:
                parts.extend(_own(spark, located, tables.get(located.path)))
    if parts:
        with carrying_out(f"DROP SCHEMA {Name(schema)} CASCADE"):
            drop_parts(spark, *parts)


def _own(spark: SparkSession, located: Located, found: Entry | Unreadable | None) -> Iterator[Part]:
    """Yield what DROP deletes of a table that the catalog accepted: `found` if it is a stream table, else an object.

    Nothing is yielded for a stream table that nobody can read, or in whose place another table is.
    """
    if isinstance(found, Entry):
        yield replace(marked(spark, located.name, located.path), alone=is_alone(found.definition))
    elif found is None and not knows(located, FORMATTED):
        yield marked(spark, located.name, located.path)


def _places(spark: SparkSession, schema: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths of the tables of a schema, and the names of its views."""
    for parts in table_names(spark, schema):
        located = find_table(spark, parts)
        yield located.path or ".".join(located.name)


def _readers(tables: list[Entry], places: set[str]) -> list[str]:
    return [each.definition.name for each in tables if places & {*each.definition.sources, *each.views}]


def _dropped(spark: SparkSession, path: str, found: Entry | Unreadable, readers: list[str]) -> str:
    """Tell what became of a stream table. A LOCATION in the folder of the schema is deleted with it."""
    left = f", left its files in {path}" if _holds_files(spark, path) else ""
    why = f", could not be read: {found.reason}" if isinstance(found, Unreadable) else ""
    read = f", and {', '.join(readers)} cannot be refreshed any more" if readers else ""
    return f"DROPPED{left}{why}{read}"


def _holds_files(spark: SparkSession, path: str) -> bool:
    try:
        return bool(names(spark, path))
    except Py4JJavaError:  # the schema is gone nevertheless
        return True
