"""The definitions that a table cannot get by CREATE OR REPLACE or ALTER ... AS, and the tables whose change may lift a refusal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from streamtable.catalog.definition import Definition, defaults_of, over
from streamtable.catalog.entries import Entry, entries
from streamtable.definitions.checks import mapping
from streamtable.errors import DependentsExist, NotSupported, SourceChanged, SourceUnavailable, StreamTableError
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.stream_table.explained import REFUSED
from streamtable.query.analyse import release
from streamtable.query.followed import followers
from streamtable.query.stored import analyse_again
from streamtable.sessions.internal import lend

__all__ = ["Refusal", "columns_of", "layouts", "properties_asked", "refusal", "same_layout", "told"]

AGAIN = "DROP STREAM TABLE first, then CREATE it"


@dataclass(frozen=True)
class Refusal:
    """Why a table cannot get another definition now."""

    error: StreamTableError
    followers: tuple[str, ...] = ()
    """It is lifted when each of these has changed, or is dropped."""
    by_columns: bool = False
    """It may be lifted when a table that the query reads gets other columns."""


def told(error: StreamTableError) -> str:
    """Return how EXPLAIN tells of a refusal."""
    return f"{REFUSED}{error.reason}{(error.hint and f'; {error.hint}') or ''}"


def refusal(spark: SparkSession, existing: Entry, definition: Definition, schema: StructType) -> Refusal | None:
    """Return why the table cannot get the definition. A refusal that no other table lifts comes first."""
    return next(_refusals(spark, existing, definition, schema), None)


def _refusals(spark: SparkSession, existing: Entry, definition: Definition, schema: StructType) -> Iterator[Refusal]:
    if definition.statement.location != existing.definition.statement.location:
        yield Refusal(NotSupported("CREATE OR REPLACE cannot change where the table is", hint=AGAIN))
    laid_out_anew = not same_layout(existing, definition)
    if laid_out_anew and existing.state.clustering and definition.statement.partitioned_by:
        yield Refusal(NotSupported("Delta cannot partition a table that is clustered, or was", hint=AGAIN))
    if definition.statement.frozen and existing.state.frontier is not None:
        yield from _of_frozen(existing, laid_out_anew, schema)
    yield from _of_mapping(existing, definition, schema)
    if laid_out_anew:
        yield from _of_followers(spark, existing)
    yield from _of_readers(spark, existing, schema)


def _of_frozen(existing: Entry, laid_out_anew: bool, schema: StructType) -> Iterator[Refusal]:
    """Refuse what the rows that stay cannot take part in: other columns, and another layout, for which all are written anew."""
    same = columns_of(schema) == columns_of(existing.state.schema)
    if not same or laid_out_anew:
        what = "laid out anew" if same else "given other columns"
        hint = f"keep {'the layout' if same else 'names, types and order of the columns'}, or {AGAIN} with BACKFILL FROM a copy"
        error = NotSupported(f"{existing.definition.name} keeps frozen rows, and cannot be {what}", hint=hint)
        yield Refusal(error, by_columns=not laid_out_anew)


def _of_mapping(existing: Entry, definition: Definition, schema: StructType) -> Iterator[Refusal]:
    """Refuse to drop a field of a table with column mapping and a change feed: Delta takes no rows in the commit that does so."""
    properties = {
        key: value for key, value in over(existing.state.properties, properties_asked(existing, definition)).items() if value
    }
    lost = set(_paths(existing.state.schema)) - set(_paths(schema))
    if lost and mapping(properties) not in (None, "none") and properties.get("delta.enableChangeDataFeed") == "true":
        named = ", ".join(".".join(path) for path in sorted(lost))
        what = (
            f"{existing.definition.name} has column mapping and a change data feed: Delta cannot drop {named} while it writes rows"
        )
        hint = f"keep these columns, or set delta.enableChangeDataFeed to false in TBLPROPERTIES, or {AGAIN}"
        yield Refusal(NotSupported(what, hint=hint), by_columns=True)


def _of_followers(spark: SparkSession, existing: Entry) -> Iterator[Refusal]:
    """Refuse another layout of a table whose changes somebody reads: they are in files of the old layout."""
    if found := tuple(followers(spark, existing)):
        who = ", ".join(found)
        message = f"{existing.definition.name} is read by {who}, and cannot be laid out anew"
        yield Refusal(DependentsExist(message, hint=f"drop {who} first, or keep the layout"), found)


def _of_readers(spark: SparkSession, existing: Entry, schema: StructType) -> Iterator[Refusal]:
    """Refuse to remove or retype a column that readers use."""
    stays = {(name.casefold(), kind) for name, kind in columns_of(schema)}
    lost = {name for name, kind in columns_of(existing.state.schema) if (name.casefold(), kind) not in stays}
    readers = [each for each in entries(spark) if existing.path in each.definition.sources] if lost else []
    used = {entry.definition.name: _used_by(spark, entry, existing.path) & lost for entry in readers}
    if losing := {name: columns for name, columns in used.items() if columns}:
        columns = ", ".join(sorted(set[str]().union(*losing.values())))
        error = DependentsExist(
            f"{existing.definition.name} is read by {', '.join(losing)}, and would lose or retype {columns}",
            hint="keep the columns, or change those tables first",
        )
        yield Refusal(error, tuple(losing), by_columns=True)


def _used_by(spark: SparkSession, reader: Entry, path: str) -> frozenset[str]:
    """Return the columns of the table that a reader uses. A reader that cannot be analysed lacks others already."""
    try:
        session = lend(spark, reader.definition.namespace, reader.definition.settings)
        analysed = analyse_again(session, reader)
    except (SourceChanged, SourceUnavailable):
        return frozenset()
    release(analysed)
    return analysed.columns_of(path)


def _paths(kind: DataType, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of all fields in a type, in lower case."""
    match kind:
        case StructType():
            for field in kind:
                path = (*at, field.name.casefold())
                yield path
                yield from _paths(field.dataType, path)
        case ArrayType():
            yield from _paths(kind.elementType, (*at, "element"))
        case MapType():
            yield from _paths(kind.keyType, (*at, "key"))
            yield from _paths(kind.valueType, (*at, "value"))


def properties_asked(existing: Entry, definition: Definition) -> dict[str, str | None]:
    """Return the properties that the statement sets; those that only the old one set go back to their defaults."""
    return over(defaults_of(dict(existing.definition.statement.properties)), dict(definition.statement.properties))


def columns_of(schema: StructType) -> list[tuple[str, str]]:
    """Return names and types of the columns, which decide whether two schemas are the same for rows.

    Types are texts, which have no comments of nested fields.
    """
    return [(field.name, field.dataType.simpleString()) for field in schema]


def same_layout(existing: Entry, definition: Definition) -> bool:
    """Tell whether the files of the table stay laid out as they are; the case of column names does not count."""
    before, after = layouts(existing.definition.statement), layouts(definition.statement)
    return [_caseless(names) for names in before] == [_caseless(names) for names in after]


def _caseless(names: Iterable[str]) -> list[str]:
    return [name.casefold() for name in names]


def layouts(statement: CreateStreamTable) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns by which the files are partitioned, and those by which they are clustered."""
    return statement.partitioned_by, statement.clustered_by
