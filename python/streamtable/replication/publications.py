"""Publications: which tables they are for, and what of these is sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from streamtable.catalog import objects
from streamtable.catalog.objects import Stored
from streamtable.delta.bridge import java_class
from streamtable.delta.rows import read
from streamtable.delta.tables import Located, TableState, locate, state
from streamtable.errors import InvalidStatement, SourceUnavailable
from streamtable.handles import catalog_of
from streamtable.replication.kinds import PUBLICATION
from streamtable.replication.publisher import Publisher
from streamtable.sql.parse import parse
from streamtable.sql.printing import to_sql
from streamtable.sql.replication import (
    AddObjects,
    AlterPublication,
    CreatePublication,
    DropObjects,
    Objects,
    PublishedTable,
    SetObjects,
    SetOptions,
)
from streamtable.sql.statements import Name, Rename

__all__ = ["Published", "alter", "create", "definition", "filtered", "outside", "published"]


@dataclass(frozen=True)
class Published:
    """One table, by the publisher's name, as a publication sends it: all columns if none are named, all rows if `where` is None."""

    name: tuple[str, ...]
    path: str
    table_id: str
    publication: str
    columns: tuple[str, ...]
    where: str | None
    publish: tuple[str, ...]


def create(spark: SparkSession, statement: CreatePublication) -> Stored:
    """Make a publication. Raises what is wrong with its tables, and ReplicationObjectExists."""
    located = objects.free(spark, PUBLICATION, statement.name)
    named = replace(statement, name=Name(located.name), objects=_canonical(spark, statement.objects, located.name[:-1]))
    return objects.create(spark, PUBLICATION, statement.name, {"sql": to_sql(named)})


def definition(stored: Stored) -> CreatePublication:
    """Return what the publication is for."""
    statement = parse(stored.content["sql"])
    assert isinstance(statement, CreatePublication), "it was printed from one"
    return statement


def alter(spark: SparkSession, statement: AlterPublication) -> Stored:
    """Change what a publication is for, or its name, and return it."""
    stored = objects.load(spark, PUBLICATION, statement.name)
    known = definition(stored)
    home = known.name.parts[:-1]
    match statement.action:
        case Rename(to):
            return objects.rename(spark, stored, to)
        case SetOptions(options):
            publish = dict(options)["publish"].split(",")
            known = replace(known, publish=tuple(kind for kind in publish if kind))
        case SetObjects(wanted):
            known = replace(known, objects=_canonical(spark, wanted, home))
        case AddObjects(more):
            known = replace(known, objects=_added(stored, known.objects, _canonical(spark, more, home)))
        case DropObjects(fewer):
            known = replace(known, objects=_dropped(spark, stored, known.objects, fewer))
    return objects.change(spark, stored, {"sql": to_sql(known)})


def published(spark: SparkSession, stored: Stored, publisher: Publisher) -> Iterator[Published]:
    """Yield the tables of a publication as they are now, those of its schema and what it names besides; some may be gone.

    A table that is in a schema of the publication as well is sent whole.
    """
    statement = definition(stored)
    wanted, home, found = statement.objects, statement.name.parts[:-1], set[Name]()
    whole: Iterable[Name] = ()
    if wanted.all_tables or any(_same(home, schema.parts) for schema in wanted.schemas):
        every = (Name((*home, name)) for name in publisher.tables(spark))
        whole = (name for name in every if name not in wanted.excepted)
    for table in (*map(PublishedTable, whole), *wanted.tables):
        here = publisher.name(table.name.parts[-1]) if _same(home, table.name.parts[:-1]) else table.name
        _, at = _table(spark, here)
        if at is not None and table.name not in found:
            found.add(table.name)
            yield Published(table.name.parts, at.path, at.table_id, str(stored), table.columns, table.where, statement.publish)


def outside(stored: Stored) -> list[Name]:
    """Return the tables that a publication names in other schemas than its own, and such schemas, which earlier versions took."""
    said = definition(stored)
    home = said.name.parts[:-1]
    tables = (table.name for table in said.objects.tables if not _same(home, table.name.parts[:-1]))
    return [*tables, *(schema for schema in said.objects.schemas if not _same(home, schema.parts))]


def _same(schema: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Compare names of schemas as Spark's catalog does."""
    return [part.casefold() for part in schema] == [part.casefold() for part in other]


def _table(spark: SparkSession, name: Name) -> tuple[Located, TableState | None]:
    """Look up a Delta table that can be published."""
    located = locate(spark, name.parts)
    if located.kind != "delta":
        return located, None
    try:
        found = state(spark, located.path)
    except SourceUnavailable:
        return located, None
    return located, None if objects.is_one(found.properties) else found


def _canonical(spark: SparkSession, wanted: Objects, home: tuple[str, ...]) -> Objects:
    """Name everything in full, and check what is said of the tables and schemas; `home` is the publication's own."""
    tables = tuple(_checked(spark, table) for table in wanted.tables)
    again = [str(table.name) for n, table in enumerate(tables) if table.name in [each.name for each in tables[:n]]]
    if again:
        raise InvalidStatement(f"the table {again[0]} is listed twice", hint="list it once; conditions are joined by OR")
    schemas = _schemas(spark, wanted)
    for schema in schemas:
        if not catalog_of(spark).databaseExists(str(schema)):
            raise InvalidStatement(f"there is no schema {schema}", hint="SHOW SCHEMAS")
        if not _same(home, schema.parts):
            message = f"a publication of the schema {'.'.join(home)} cannot be for the tables in {'.'.join(schema.parts)}"
            raise InvalidStatement(message, hint="create a publication in each schema; a subscription follows one of them")
    excepted = tuple(Name(locate(spark, name.parts).name) for name in wanted.excepted)
    return Objects(tables, schemas, wanted.all_tables, excepted)


def _schemas(spark: SparkSession, wanted: Objects) -> tuple[Name, ...]:
    """Name the schemas in full."""
    catalog = catalog_of(spark).currentCatalog()
    return tuple(Name((catalog, *schema.parts)[-2:]) for schema in wanted.schemas)


def _checked(spark: SparkSession, table: PublishedTable) -> PublishedTable:
    located, found = _table(spark, table.name)
    full = ".".join(located.name)
    if found is None:
        raise InvalidStatement(f"{full} cannot be published", hint="publish a Delta table or a stream table that exists")
    rows = read(spark, found.path, found.version)
    columns = {name.casefold(): name for name in rows.columns}
    if unknown := [name for name in table.columns if name.casefold() not in columns]:
        raise InvalidStatement(f"the column {unknown[0]} does not exist in {full}", hint=f"it has {', '.join(rows.columns)}")
    if table.where is not None:
        plan: Any = filtered(rows, table.where, full, hint="write a condition on its columns")._jdf.queryExecution().analyzed()
        patterns: Any = java_class(spark, "org.apache.spark.sql.catalyst.trees.TreePattern")
        if plan.containsPattern(patterns.PLAN_EXPRESSION()):
            hint = "write a condition on the columns of the row alone; or publish a stream table of the rows"
            raise InvalidStatement(f"the condition on {full} has a subquery, whose answer may change", hint=hint)
        if not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
            hint = "leave out functions like rand(), current_date() and current_user()"
            raise InvalidStatement(f"the condition on {full} is not the same each time", hint=hint)
    return PublishedTable(Name(located.name), tuple(columns[name.casefold()] for name in table.columns), table.where)


def filtered(rows: DataFrame, where: str | None, name: str, hint: str) -> DataFrame:
    """Return the rows of a table that are sent. Raises InvalidStatement for what is no condition on them."""
    if where is None:
        return rows
    try:
        return rows.where(where)
    except AnalysisException as error:
        raise InvalidStatement(f"({where}) is no condition on {name}: {error.getMessage()}", hint=hint) from error


def _added(stored: Stored, known: Objects, more: Objects) -> Objects:
    if known.all_tables or more.all_tables:
        hint = "ALTER PUBLICATION ... SET says anew what a publication is for"
        raise InvalidStatement(f"{stored}: ALL TABLES stands alone, nothing can be added to it nor it to others", hint=hint)
    names = {table.name for table in known.tables}
    if again := [table.name for table in more.tables if table.name in names]:
        raise InvalidStatement(f"{stored} is for {again[0]} already", hint="SET says anew what a publication is for")
    return Objects(known.tables + more.tables, tuple(dict.fromkeys(known.schemas + more.schemas)))


def _dropped(spark: SparkSession, stored: Stored, known: Objects, fewer: Objects) -> Objects:
    tables = {Name(locate(spark, table.name.parts).name) for table in fewer.tables}
    schemas = set(_schemas(spark, fewer))
    missing = (tables - {table.name for table in known.tables}) | (schemas - set(known.schemas))
    if missing:
        raise InvalidStatement(f"{stored} is not for {_listed(missing)}", hint="SELECT * FROM publications()")
    kept = tuple(table for table in known.tables if table.name not in tables)
    return Objects(kept, tuple(schema for schema in known.schemas if schema not in schemas))


def _listed(names: Iterable[Name]) -> str:
    return ", ".join(sorted(map(str, names)))
