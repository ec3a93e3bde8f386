"""Remains of killed statements: found by their intents, and, from releases without intents, by folders and names that lead nowhere.

A folder without a catalog entry is a leftover if it holds a table of ours, or half of one. Half a table is deleted. A whole one
gets its name back, because a catalog may have been lost. A name of ours is a leftover if its table's folder is missing. If all
folders of the schema are missing, its storage may not be mounted, and no name counts. Tables at a LOCATION are found by their
intents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession

from streamtable.catalog.definition import Definition
from streamtable.catalog.entries import schemas, table_names
from streamtable.catalog.halves import FOLDER, Intent, forget, properties_at
from streamtable.catalog.intents import left
from streamtable.catalog.kinds import is_one
from streamtable.catalog.paths import HIDDEN, home_of
from streamtable.definitions.drop import is_alone
from streamtable.definitions.settle import settle_one
from streamtable.delta.ddl import register
from streamtable.delta.folders import LOG, children, has_commits, move, names
from streamtable.delta.tables import ALWAYS, NEVER, drop_own, find_table, state
from streamtable.delta.unreadable import Unreadable, left_out
from streamtable.language.parse import parse_name

__all__ = ["Leftover", "leftovers"]

K = TypeVar("K")
V = TypeVar("V")

OBJECT = "an object"
"""The name of a leftover queue, publication, subscription or slot: it does not know its own."""


@dataclass(frozen=True)
class Leftover:
    """A leftover, in words for people, and the function that mends it; None if only a person can tell what to do."""

    found: str
    mend: Callable[[], object] | None


def leftovers(spark: SparkSession) -> Iterator[Leftover]:
    """Yield the leftovers in all schemas of the catalog, changing none, and what nobody can read, which hides no other."""
    for schema in schemas(spark):
        with left_out(name := ".".join(schema)) as why:
            yield from _in_schema(spark, schema)
        yield from _failing({name: why})


def _in_schema(spark: SparkSession, schema: tuple[str, str]) -> Iterator[Leftover]:
    home = home_of(spark, (*schema, ""))
    found_there = list(left(spark, home))
    intents = [each for each in found_there if isinstance(each, Intent)]
    for each in found_there:
        if isinstance(each, Unreadable):
            yield Leftover(f"{each.reason}; delete the file, unless a later release wrote it", None)
    for intent in intents:
        found = f"{intent.kind.value} of {intent.name} was not finished by {intent.by}"
        yield Leftover(found, partial(settle_one, spark, intent))
    tables, no_tables = _each(table_names(spark, schema), ".".join, partial(find_table, spark))
    yield from _failing(no_tables)
    known = {located.path: located for located in tables.values() if located.kind == "delta"}
    folders, no_folders = _each(children(spark, home), str, lambda path: _called(properties_at(spark, path)))
    yield from _failing(no_folders)
    told = {part.path for intent in intents for part in intent.parts}
    moved = {name: path for path, name in folders.items() if name and path not in known}
    for path, located in known.items():
        if path in told or path.rpartition("/")[0] != home or path in folders or path in no_folders:
            continue
        full = ".".join(located.name)
        if full in moved:  # a RENAME had moved the folder, and the catalog was not told
            yield Leftover(f"the folder of {full} is {moved[full]}", partial(move, spark, moved.pop(full), path))
        elif located.accepted and folders:
            yield Leftover(f"{full} has no folder any more: {path}", partial(forget, spark, located.name))
    if no_tables:  # a folder may be that of one of them
        return
    for path in sorted(folders.keys() - known.keys() - told):
        with left_out(path) as why:
            yield from _unnamed(spark, schema, path, folders[path], folders[path] in moved)
        yield from _failing({path: why})


def _unnamed(spark: SparkSession, schema: tuple[str, str], path: str, called: str | None, alone: bool) -> Iterator[Leftover]:
    """Yield the leftover in a folder that belongs to no name; `called` is the name in its own properties."""
    last = path.rpartition("/")[2]
    name = (*schema, last)
    if called in (OBJECT, ".".join(name)) and alone and last != FOLDER:
        found = state(spark, path)
        if called == OBJECT or found.frontier:
            mend = partial(register, spark, name, path, managed=True)
            what = "a whole table that the catalog does not know: it gets its name back, and waits for ACCEPT DEFINITION"
            yield Leftover(f"{path} holds {what}", mend)
        else:
            until = ALWAYS if is_alone(Definition.of(found.properties)) else NEVER
            yield Leftover(f"{path} holds a table that was never filled", partial(drop_own, spark, path, until))
    elif _is_half(spark, path):
        yield Leftover(f"{path} holds what is left of a table", partial(drop_own, spark, path, ALWAYS))


def _each(found: Iterable[K], text: Callable[[K], str], read: Callable[[K], V]) -> tuple[dict[str, V], dict[str, list[str]]]:
    """Return what is read of each, by its text, and why others cannot be read."""
    values, failing = dict[str, V](), dict[str, list[str]]()
    for each in found:
        with left_out(text(each)) as why:
            values[text(each)] = read(each)
        if why:
            failing[text(each)] = why
    return values, failing


def _failing(why: Mapping[str, list[str]]) -> Iterator[Leftover]:
    return (Leftover(f"{what} cannot be read: {reason}", None) for what, reasons in why.items() for reason in reasons)


def _called(properties: Mapping[str, str]) -> str | None:
    """Return the name of a table of ours in its own properties, or None for other tables. Objects do not know their names."""
    if "streamtable.definition" in properties:
        return _name_in(properties["streamtable.definition"])
    return OBJECT if is_one(properties) else None


def _name_in(definition: str) -> str:
    """Return the full name in a definition, which opens with it."""
    written = definition.removeprefix("CREATE STREAM TABLE ").partition("\n")[0].split(" (")[0]
    return ".".join(parse_name(written).parts)


def _is_half(spark: SparkSession, path: str) -> bool:
    """Tell whether a folder holds parts of a table of ours, or a log without a commit, but no table."""
    found = names(spark, path)
    if LOG not in found:
        return HIDDEN.strip("/") in found
    return found == [LOG] and not has_commits(spark, path)
