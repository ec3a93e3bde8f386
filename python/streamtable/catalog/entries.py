"""Stream tables by name: look one up, list all, and find the readers of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from streamtable.catalog.accepted import accepting, check, is_copy, knows, made_as, never_accepted, of_table
from streamtable.catalog.definition import FORMATTED, USED, Definition, Properties, code_of
from streamtable.catalog.paths import is_path
from streamtable.catalog.requests import Request, requests_of
from streamtable.delta.tables import Located, TableState, find_table, state
from streamtable.delta.unreadable import Unreadable, left_out
from streamtable.errors import SourceUnavailable, StreamTableNotFound, near_names
from streamtable.jvm.handles import catalog_of
from streamtable.language.names import Name, Query
from streamtable.sessions.internal import new
from streamtable.sql.literals import unquote_name

__all__ = [
    "CATALOG",
    "Entry",
    "at_home",
    "entries",
    "entry_of",
    "find",
    "find_at",
    "listed",
    "load",
    "named_entries",
    "readable",
    "readers_named",
    "readers_of",
    "schemas",
    "storing",
    "table_columns",
    "table_names",
    "unreadable",
]

CATALOG = "spark_catalog"
"""The catalog of all stream tables, and of all objects that are stored like them."""


def at_home(spark: SparkSession) -> SparkSession:
    """Return a session in which a name of two parts is a name of that catalog, whatever the current catalog is."""
    return spark if catalog_of(spark).currentCatalog() == CATALOG else new(spark)


@dataclass(frozen=True)
class Entry:
    """A stream table, read from its Delta table."""

    definition: Definition
    state: TableState
    name: tuple[str, ...]
    """The full name in the catalog. After a killed RENAME the definition may hold another name."""

    @property
    def path(self) -> str:
        return self.state.path

    @cached_property
    def views(self) -> tuple[str, ...]:
        """Return the full names of the views that the query reads, at any depth."""
        return tuple(json.loads(self.state.properties.get("streamtable.views", "[]")))

    @cached_property
    def requests(self) -> tuple[Request, ...]:
        """Return the refreshes that wait for a scheduler, or that one carries out."""
        return requests_of(self.state.properties)

    @property
    def query(self) -> Query:
        """Return the query with the columns that its tables had at CREATE."""
        return replace(self.definition.statement.query, columns=self.columns)

    @property
    def columns(self) -> str:
        """Return the columns that the tables had at CREATE, a JSON object. Tables of earlier releases have none."""
        return self.state.properties.get("streamtable.columns", "{}")

    @property
    def used(self) -> tuple[str, ...]:
        """Return the columns of each source that the query mentions, for people. Tables of earlier releases have none."""
        return tuple(json.loads(self.state.properties.get(USED, "[]")))

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """Return the full names of the SQL functions of the catalog that the query calls, at any depth."""
        return tuple(json.loads(self.state.properties.get("streamtable.functions", "[]")))


def find_at(spark: SparkSession, path: str) -> Entry | None:
    """Return the stream table at `path`, or None for an ordinary Delta table or a copy of a stream table."""
    found = state(spark, path)
    if FORMATTED not in found.properties:
        return None
    made = made_as(found.properties)
    # After a killed RENAME the catalog has the table under another name.
    for parts in chain([made] if made and len(made) == 3 else [], table_names(spark)):
        located = find_table(spark, parts)
        if located.accepted and located.path == path:
            return _accepted(located, found)
    return None


def find(spark: SparkSession, name: Name) -> tuple[Located, Entry | None]:
    """Look a name up. The entry is None when no stream table has the name.

    Raises DefinitionNotAccepted for a definition that the catalog has not accepted, DefinitionUnreadable, and SourceUnavailable
    for a name whose table is gone.
    """
    located = find_table(spark, name.parts)
    return located, _entry(spark, located)


def _entry(spark: SparkSession, located: Located) -> Entry | None:
    return _accepted(located, _state(spark, located)) if located.kind == "delta" else None


def _state(spark: SparkSession, located: Located) -> TableState:
    try:
        return state(spark, located.path)
    except SourceUnavailable as error:
        if is_path(located.name):
            raise
        what, drop = ("stream table", "DROP STREAM TABLE") if knows(located, FORMATTED) else ("table", "DROP TABLE")
        raise SourceUnavailable(
            f"there is no Delta table at {located.path} any more, where the {what} {'.'.join(located.name)} was",
            hint=f"restore its folder, or mount its storage; or forget the name: {drop} {Name(located.name)}",
        ) from error


def _accepted(located: Located, found: TableState) -> Entry | None:
    """Return the stream table, if the catalog has accepted its definition. Nothing of it is read before this check."""
    located, how = of_table(located, found.table_id), f"ALTER STREAM TABLE {Name(located.name)} ACCEPT DEFINITION"
    if not knows(located, FORMATTED):
        if FORMATTED not in found.properties or is_copy(located, found.properties):
            return None
        raise never_accepted(located, "stream table", how)
    check(located, code_of(found.properties), how)
    definition = Definition.of(found.properties)
    return Entry(definition, found, located.name) if definition else None


@contextmanager
def storing(
    spark: SparkSession, entry: Entry, properties: Mapping[str, str | None] | None
) -> Iterator[Callable[[Properties, Properties], bool]]:
    """Have the catalog accept the properties that a commit in this context changes.

    Yields a function that tells whether the commit may be made on top of properties other than those that were read.
    """
    if properties is None:
        yield Definition.same_rows
        return
    with accepting(spark, entry.name, code_of({**entry.state.properties, **properties})) as instead:

        def allows(before: Properties, now: Properties) -> bool:
            changed = {key: value for key, value in properties.items() if before.get(key) != value}
            return Definition.same_rows(before, now) and instead(code_of(now), code_of({**now, **changed}))

        yield allows


def load(spark: SparkSession, name: Name) -> Entry:
    """Return the stream table called `name`. Raises StreamTableNotFound, with near names."""
    located, entry = find(spark, name)
    if entry is not None:
        return entry
    full = ".".join(located.name)
    if located.kind != "none":
        raise StreamTableNotFound(f"{full} is no stream table but an ordinary table or view")
    try:
        known = [each.definition.name for each in entries(spark, located.name[:-1])]
    except (AnalysisException, Py4JJavaError):
        known = []  # The schema or catalog does not exist, so it has no near names.
    hint = "SHOW STREAM TABLES lists those that exist"
    raise StreamTableNotFound(f"there is no stream table {full}.{near_names(full, known)}", hint=hint)


def entries(spark: SparkSession, namespace: Sequence[str] | None = None) -> Iterator[Entry]:
    """Yield the stream tables of one namespace, or of all. Unreadable ones are left out."""
    yield from (entry for _, entry in named_entries(spark, namespace))


def named_entries(spark: SparkSession, namespace: Sequence[str] | None = None) -> Iterator[tuple[Name, Entry]]:
    """Yield stream tables with their names in the catalog. A killed process may have left another name in a definition."""
    for parts in table_names(spark, namespace):
        entry = None
        with left_out(".".join(parts)):
            entry = entry_of(spark, parts)
        if entry:
            yield Name(parts), entry


def listed(spark: SparkSession, namespace: Sequence[str] | None = None) -> Iterator[tuple[Name, Entry | Unreadable]]:
    """Yield the stream tables of one namespace, or of all; of those that the catalog knows and nobody can read now, why."""
    for parts in table_names(spark, namespace):
        located: Located | None = None
        entry: Entry | None = None
        with left_out(".".join(parts)) as why:
            located = find_table(spark, parts)
            entry = _entry(spark, located)
        if entry:
            yield Name(parts), entry
        elif why and located is not None and knows(located, FORMATTED):
            yield Name(parts), Unreadable(why[0])


def readable(found: Iterable[tuple[Name, Entry | Unreadable]]) -> list[Entry]:
    """Return those of the listed stream tables that can be read."""
    return [each for _, each in found if isinstance(each, Entry)]


def unreadable(found: Iterable[tuple[Name, Entry | Unreadable]]) -> list[tuple[str, str]]:
    """Return the full names of the others, each with the reason."""
    return [(".".join(name.parts), each.reason) for name, each in found if isinstance(each, Unreadable)]


def schemas(spark: SparkSession) -> list[tuple[str, str]]:
    """Return the full names of all schemas that can hold stream tables: those of one catalog, whatever the current one is."""
    # Not spark.catalog.listDatabases(): it costs three Spark jobs.
    return [(CATALOG, unquote_name(row[0])) for row in spark.sql(f"SHOW DATABASES IN {CATALOG}").collect()]


def table_names(spark: SparkSession, namespace: Sequence[str] | None = None) -> Iterator[tuple[str, ...]]:
    """Yield the full names of all tables and views of one namespace, or of all that can hold stream tables."""
    for space in [tuple(namespace)] if namespace else schemas(spark):
        parts = space if len(space) > 1 else (catalog_of(spark).currentCatalog(), *space)
        shown = spark.sql(f"SHOW TABLES IN {Name(parts)}").collect()
        yield from sorted((*parts, row["tableName"]) for row in shown if not row["isTemporary"])


def entry_of(spark: SparkSession, parts: Sequence[str]) -> Entry | None:
    """Return the stream table of that name; None for other tables, and for a table whose files are gone."""
    try:
        return find(spark, Name(tuple(parts)))[1]
    except SourceUnavailable:
        return None


def readers_of(spark: SparkSession, place: str) -> tuple[str, ...]:
    """Return the names of the stream tables that read the table at a path directly, or the view of a full name."""
    return tuple(each.definition.name for each in entries(spark) if place in each.definition.sources or place in each.views)


def readers_named(spark: SparkSession, located: Located, definition: Definition | None) -> list[Name]:
    """Return the names of the stream tables that read one directly.

    After a killed RENAME the definition and some readers have the old name, and these readers the old path.
    """
    full = ".".join(located.name)
    before = definition.name if definition else full
    places = {located.path, before} if before.casefold() != full.casefold() else {located.path}
    return [name for name, each in named_entries(spark) if places & {*each.definition.sources, *each.definition.sources.values()}]


def table_columns(entry: Entry) -> list[str]:
    """Return the table's columns in the order of the query's (Delta keeps the order of CREATE)."""
    return [f["name"] for f in json.loads(entry.state.schema_json)["fields"]]
