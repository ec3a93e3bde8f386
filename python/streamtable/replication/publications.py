"""Publications: their tables, and the rows and columns that they send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from streamtable.catalog import objects
from streamtable.catalog.kinds import PUBLICATION, CatalogObject, is_one, statement_of
from streamtable.catalog.mounted import away
from streamtable.delta.tables import Located, TableState, find_table, state
from streamtable.errors import InvalidStatement, SourceUnavailable, StorageFailed
from streamtable.jvm.handles import catalog_of, namespace_of
from streamtable.language.names import Name
from streamtable.language.replication.ast import (
    AddObjects,
    AlterPublication,
    CreatePublication,
    DropObjects,
    DropPublication,
    Objects,
    PublishedTable,
    SetObjects,
    SetOptions,
)
from streamtable.language.stream_table.ast import AcceptDefinition, Rename
from streamtable.language.write import to_sql
from streamtable.query.checks import find_source
from streamtable.replication.conditions import check_condition
from streamtable.replication.publisher import Publisher

__all__ = ["Published", "alter", "create", "definition", "drop", "outside", "published"]


@dataclass(frozen=True)
class Published:
    """One table, by the publisher's name, as a publication sends it.

    Without a list of columns it sends all, generated ones only with `generated`. It sends all rows if `where` is None.
    """

    name: tuple[str, ...]
    path: str
    table_id: str
    publication: str
    columns: tuple[str, ...]
    where: str | None
    publish: tuple[str, ...]
    generated: bool = False


def create(spark: SparkSession, statement: CreatePublication) -> CatalogObject:
    """Make a publication. Raises the errors of its tables, and ReplicationObjectExists."""
    located = objects.free(spark, PUBLICATION, statement.name)
    name = _spelled(spark, located.name)
    named = replace(statement, name=Name(name), objects=_joined(name, _canonical(spark, statement.objects, name[:-1])))
    return objects.create(spark, PUBLICATION, statement.name, _content(spark, named, ()))


def definition(stored: CatalogObject) -> CreatePublication:
    """Return the tables and schemas of the publication."""
    return statement_of(stored, CreatePublication)


def alter(spark: SparkSession, statement: AlterPublication) -> CatalogObject:
    """Change the tables of a publication, or its name, and return it."""
    if isinstance(statement.action, AcceptDefinition):
        return objects.accept_definition(spark, PUBLICATION, statement.name)
    stored = objects.load(spark, PUBLICATION, statement.name)
    known = definition(stored)
    home, left_out = known.name.parts[:-1], stored.content.get("excepted", ())
    match statement.action:
        case Rename(to):
            return objects.rename(spark, stored, to)
        case SetOptions(options):
            known = known.having(options)
        case SetObjects(wanted):
            known, left_out = replace(known, objects=_joined(stored.name, _canonical(spark, wanted, home))), ()
        case AddObjects(more):
            known = replace(known, objects=_joined(stored.name, known.objects, _canonical(spark, more, home)))
        case DropObjects(fewer):
            known = replace(known, objects=_dropped(spark, stored, known.objects, fewer))
    return objects.change(spark, stored, _content(spark, known, left_out))


def drop(spark: SparkSession, statement: DropPublication) -> list[CatalogObject]:
    """Drop publications, and return them: all that are named, or none if one is missing and there is no IF EXISTS."""
    wanted = [objects.wanted(spark, PUBLICATION, name, statement.if_exists) for name in statement.names]
    found = [each for n, each in enumerate(wanted) if each and each.path not in {before.path for before in wanted[:n] if before}]
    if found:
        objects.drop(spark, *found)
    return found


def published(
    spark: SparkSession, stored: CatalogObject, publisher: Publisher, away: dict[str, StorageFailed] | None = None
) -> Iterator[Published]:
    """Yield the current tables of a publication, of its schema and by name; some may be gone.

    A table that is in a schema of the publication as well is sent whole. A table whose storage is away is told in `away`, by its
    name; without one, StorageFailed is raised.
    """
    statement = definition(stored)
    wanted, home = statement.objects, statement.name.parts[:-1]
    # By name and by id, so that a table which is renamed, or created again, stays left out.
    excepted = {*(name.parts[-1] for name in wanted.excepted), *stored.content.get("excepted", ())}
    whole: Iterable[str] = ()
    if wanted.all_tables or any(_same(home, schema.parts) for schema in wanted.schemas):
        whole = (name for name in publisher.tables(spark) if name not in excepted)
    for table in (*(PublishedTable(Name((*home, name))) for name in whole), *wanted.tables):
        here = publisher.name(table.name.parts[-1]) if _same(home, table.name.parts[:-1]) else table.name
        try:
            _, at = _table(spark, here)
        except StorageFailed as error:
            if away is None:
                raise
            away[table.name.parts[-1]] = error
            continue
        if at is not None and at.table_id not in excepted:
            excepted.add(at.table_id)  # once
            said = (table.columns, table.where, statement.publish, statement.generated == "stored")
            yield Published(table.name.parts, at.path, at.table_id, str(stored), *said)


def outside(stored: CatalogObject) -> list[Name]:
    """Return the tables that a publication names in other schemas than its own, and such schemas, which earlier versions took."""
    said = definition(stored)
    home = said.name.parts[:-1]
    tables = (table.name for table in said.objects.tables if not _same(home, table.name.parts[:-1]))
    return [*tables, *(schema for schema in said.objects.schemas if not _same(home, schema.parts))]


def _same(schema: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Compare names of schemas as Spark's catalog does."""
    return [part.casefold() for part in schema] == [part.casefold() for part in other]


def _table(spark: SparkSession, name: Name) -> tuple[Located, TableState | None]:
    """Look up a Delta table that can be published. Raises StorageFailed where it is away: it is not dropped."""
    located = find_source(spark, name)
    if located.kind != "delta":
        return located, None
    try:
        found = state(spark, located.path)
    except SourceUnavailable as error:
        if failed := away(spark, located):
            raise failed from error
        return located, None
    return located, None if is_one(found.properties) else found


def _canonical(spark: SparkSession, wanted: Objects, home: tuple[str, ...]) -> Objects:
    """Name everything in full, and check the tables and schemas. `home` is the publication's own schema."""
    tables = tuple(dict.fromkeys(_checked(spark, table) for table in wanted.tables))
    names = [table.name for table in tables]
    if again := [str(name) for n, name in enumerate(names) if name in names[:n]]:
        hint = "list it once: with one list of columns, and conditions joined by OR"
        raise InvalidStatement(f"the table {again[0]} is listed twice", hint=hint)
    schemas = _schemas(spark, wanted)
    for schema in schemas:
        if not catalog_of(spark).databaseExists(str(schema)):
            raise InvalidStatement(f"there is no schema {schema}", hint="SHOW SCHEMAS")
        if not _same(home, schema.parts):
            message = f"a publication of the schema {'.'.join(home)} cannot be for the tables in {'.'.join(schema.parts)}"
            raise InvalidStatement(message, hint="create a publication in each schema; a subscription follows one of them")
    return Objects(tables, schemas, wanted.all_tables, tuple(_excepted(spark, name, home) for name in wanted.excepted))


def _content(spark: SparkSession, statement: CreatePublication, left_out: Iterable[str]) -> dict[str, Any]:
    """Return the property of a publication: its text, and the ids of the tables that are left out."""
    ids = {found.table_id for name in statement.objects.excepted if (found := _table(spark, name)[1])}
    return {"sql": to_sql(statement), "excepted": sorted(ids.union(left_out))}


def _schemas(spark: SparkSession, wanted: Objects) -> tuple[Name, ...]:
    """Name the schemas in full."""
    catalog, database = namespace_of(spark)
    spelled = ((database,) if schema.parts == ("CURRENT_SCHEMA",) else schema.parts for schema in wanted.schemas)
    return tuple(dict.fromkeys(Name(_spelled(spark, (catalog, *parts)[-2:])) for parts in spelled))


def _spelled(spark: SparkSession, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Spell a name as the catalog lists it."""
    return parts if spark.conf.get("spark.sql.caseSensitive") == "true" else (parts[0], *(part.lower() for part in parts[1:]))


def _excepted(spark: SparkSession, name: Name, home: tuple[str, ...]) -> Name:
    located, found = _table(spark, name)
    full = ".".join(located.name)
    if found is None or not _same(home, located.name[:-1]):
        message = f"there is no table {full} to be left out of the tables of {'.'.join(home)}"
        raise InvalidStatement(message, hint=f"SHOW TABLES IN {home[-1]} lists them")
    return Name(_spelled(spark, located.name))


def _checked(spark: SparkSession, table: PublishedTable) -> PublishedTable:
    located, found = _table(spark, table.name)
    full = ".".join(located.name)
    if found is None:
        raise InvalidStatement(f"{full} cannot be published", hint="publish a Delta table or a stream table that exists")
    columns = {name.casefold(): name for name in found.schema.names}
    if unknown := [name for name in table.columns if name.casefold() not in columns]:
        raise InvalidStatement(f"the column {unknown[0]} does not exist in {full}", hint=f"it has {', '.join(columns.values())}")
    if table.where is not None:
        check_condition(spark, table.where, found.schema, full, "write a condition on its columns")
    named = tuple(columns[name.casefold()] for name in table.columns)
    return PublishedTable(Name(_spelled(spark, located.name)), named, table.where)


def _joined(name: tuple[str, ...], known: Objects, more: Objects | None = None) -> Objects:
    """Return the tables and schemas of a publication. Raises InvalidStatement for a combination that is not allowed."""
    stored, hint = ".".join(name), "ALTER PUBLICATION ... SET says anew what a publication is for"
    if more and (known.all_tables or more.all_tables):
        raise InvalidStatement(f"{stored}: FOR ALL TABLES cannot be combined with other tables or schemas", hint=hint)
    more, names = more or Objects(), {*(table.name for table in known.tables), *known.schemas}
    if again := [each for each in (*(table.name for table in more.tables), *more.schemas) if each in names]:
        raise InvalidStatement(f"{stored} is for {again[0]} already", hint=hint)
    both = replace(known, tables=known.tables + more.tables, schemas=known.schemas + more.schemas)
    listed = [table.name for table in both.tables if table.columns]
    if both.schemas and listed:
        message = f"{stored}: a list of columns of {listed[0]} cannot stand beside TABLES IN SCHEMA, which sends the table whole"
        raise InvalidStatement(message, hint="make two publications, or list the tables one by one")
    return both


def _dropped(spark: SparkSession, stored: CatalogObject, known: Objects, fewer: Objects) -> Objects:
    tables = {Name(_spelled(spark, find_table(spark, table.name.parts).name)) for table in fewer.tables}
    schemas = set(_schemas(spark, fewer))
    missing = (tables - {table.name for table in known.tables}) | (schemas - set(known.schemas))
    if missing:
        raise InvalidStatement(f"{stored} is not for {_listed(missing)}", hint="SELECT * FROM publications()")
    kept = tuple(table for table in known.tables if table.name not in tables)
    return Objects(kept, tuple(schema for schema in known.schemas if schema not in schemas))


def _listed(names: Iterable[Name]) -> str:
    return ", ".join(sorted(map(str, names)))
