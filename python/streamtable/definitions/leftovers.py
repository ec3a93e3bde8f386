"""Remains of killed statements: found by their intents, and, from releases without intents, by folders and names that lead nowhere.

A folder without a catalog entry is a leftover if it holds a table of ours, or half of one. Half a table is deleted. A whole one
gets its name back, because a catalog may have been lost. A name of ours is a leftover if its table's folder is missing. If all
folders of the schema are missing, its storage may not be mounted, and no name counts. Tables at a LOCATION are found by their
intents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from streamtable.catalog.entries import schemas, table_names
from streamtable.catalog.halves import FOLDER, forget, properties_at
from streamtable.catalog.intents import dead
from streamtable.catalog.kinds import is_one
from streamtable.catalog.paths import HIDDEN, home_of
from streamtable.definitions.settle import settle_one
from streamtable.delta.folders import children, move, names
from streamtable.delta.tables import drop_own, find_table, register, state
from streamtable.language.parse import parse_name

__all__ = ["Leftover", "leftovers"]

OBJECT = "an object"
"""The name of a leftover queue, publication, subscription or slot: it does not know its own."""


@dataclass(frozen=True)
class Leftover:
    """A leftover, in words for people, and the function that mends it."""

    found: str
    mend: Callable[[], object]


def leftovers(spark: SparkSession) -> Iterator[Leftover]:
    """Yield the leftovers in all schemas of the catalog, without changing any."""
    for schema in schemas(spark):
        yield from _in_schema(spark, schema)


def _in_schema(spark: SparkSession, schema: tuple[str, str]) -> Iterator[Leftover]:
    home = home_of(spark, (*schema, ""))
    intents = list(dead(spark, home))
    for intent in intents:
        found = f"{intent.kind.value} of {intent.name} was not finished by {intent.by}"
        yield Leftover(found, partial(settle_one, spark, intent))
    tables = [located for name in table_names(spark, schema) if (located := find_table(spark, name)).kind == "delta"]
    known = {located.path: located for located in tables}
    folders = {path: _called(properties_at(spark, path)) for path in children(spark, home)}
    told = {part.path for intent in intents for part in intent.parts}
    moved = {name: path for path, name in folders.items() if name and path not in known}
    for path, located in known.items():
        if path in told or path.rpartition("/")[0] != home or path in folders:
            continue
        full = ".".join(located.name)
        if full in moved:  # a RENAME had moved the folder, and the catalog was not told
            yield Leftover(f"the folder of {full} is {moved[full]}", partial(move, spark, moved.pop(full), path))
        elif located.accepted and folders:
            yield Leftover(f"{full} has no folder any more: {path}", partial(forget, spark, located.name))
    for path in sorted(folders.keys() - known.keys() - told):
        last = path.rpartition("/")[2]
        name = (*schema, last)
        if folders[path] in (OBJECT, ".".join(name)) and folders[path] in moved and last != FOLDER:
            if folders[path] == OBJECT or state(spark, path).frontier:
                mend = partial(register, spark, name, path, managed=True)
                what = "a whole table that the catalog does not know: it gets its name back, and waits for ACCEPT DEFINITION"
                yield Leftover(f"{path} holds {what}", mend)
            else:
                yield Leftover(f"{path} holds a table that was never filled", partial(drop_own, spark, path, alone=True))
        elif _is_half(spark, path):
            yield Leftover(f"{path} holds what is left of a table", partial(drop_own, spark, path, alone=True))


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
    if "_delta_log" not in found:
        return HIDDEN.strip("/") in found
    return found == ["_delta_log"] and not any(name.endswith(".json") for name in names(spark, f"{path}/_delta_log"))
