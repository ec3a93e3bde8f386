"""A folder of definitions, brought into a catalog: the plan of each table, and the statements in an order that works."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import networkx as nx
import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.scope import traverse_scope

from streamtable.api.tables import StreamTables
from streamtable.errors import DependentsExist, InvalidQuery, InvalidStatement, StreamTableError
from streamtable.language.names import Name, Query, folded
from streamtable.language.parse import parse, parse_name
from streamtable.language.scripts import split
from streamtable.language.stream_table.ast import CreateStreamTable, DropStreamTable
from streamtable.language.write import to_sql
from streamtable.sql.literals import quote_full_name, unquote_name

__all__ = ["Step", "StepKind", "Wanted", "carried_out", "planned", "wanted_in"]

SAME = "the definition is the same"
SAME_PLAN = "the plan of the query is the same"

_WORD = re.compile(r"`(?:[^`]|``)+`|\w+")
_QUERIES = (exp.Query, exp.Values)


class StepKind(str, Enum):
    """What a deployment does to one table."""

    CREATE = "create"
    ALTER = "alter"
    """The definition changes, and no row."""
    REBUILD = "rebuild"
    NOTHING = "nothing"
    DROP = "drop"


@dataclass(frozen=True)
class Wanted:
    """A table that a file defines; `name` is its full name, `place` the file and the line."""

    name: Name
    statement: CreateStreamTable
    place: str


@dataclass(frozen=True)
class Step:
    """What is done to one table, why, and by which statement."""

    name: str
    kind: StepKind
    why: str
    place: str
    sql: str

    def __str__(self) -> str:
        """Return the step as a line for people."""
        return f"{self.kind.value:<8} {self.name}: {self.why}{self.place and f' ({self.place})'}"


def wanted_in(folder: Path, namespace: Sequence[str]) -> list[Wanted]:
    """Return the tables that the .sql files below a folder define, sources before their readers.

    Names are completed by `namespace`, a catalog and a schema. Raises InvalidStatement for any other statement, for a table that
    is defined twice, for tables that read each other, and for files and folders that cannot be read.
    """
    found: dict[Name, Wanted] = {}
    for file in sorted(_files(folder)):
        for piece in split(_text(file)):
            place = f"{file.relative_to(folder)}:{piece.line}"
            wanted = _wanted(piece.sql, place, namespace)
            if wanted.name in found:
                raise InvalidStatement(f"{place} defines {wanted.name} again, which {found[wanted.name].place} defines")
            found[wanted.name] = wanted
    if not found:
        raise InvalidStatement(f"{folder} has no .sql file with a definition")
    return _sources_first(found, namespace)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the .sql files below a folder; one that is left out is a table that `--prune` drops."""

    def refuse(error: OSError) -> None:
        raise InvalidStatement(
            f"{error.filename} cannot be read: {error.strerror}", hint="let the deployment read all of its folder"
        )

    for place, folders, files in os.walk(folder, onerror=refuse):
        if links := [Path(place, name) for name in sorted(folders) if Path(place, name).is_symlink()]:
            raise InvalidStatement(
                f"{links[0]} is a link to a folder, and a deployment follows none",
                hint="put the folder itself there, or delete the link",
            )
        yield from (Path(place, name) for name in files if name.casefold().endswith(".sql"))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidStatement(
            f"{file} cannot be read: {error}", hint="write the file in UTF-8, and let the deployment read it"
        ) from None


def _wanted(sql: str, place: str, namespace: Sequence[str]) -> Wanted:
    try:
        statement = parse(sql)
    except StreamTableError as error:
        raise InvalidStatement(f"{place}: {error.reason}", hint=error.hint) from None
    if not isinstance(statement, CreateStreamTable):
        raise InvalidStatement(
            f"{place} is no CREATE STREAM TABLE", hint="a deployment has definitions only; run other statements by: streamtable run"
        )
    full = Name((*namespace[: 3 - len(statement.name.parts)], *statement.name.parts))
    return Wanted(Name(folded(full.parts)), replace(statement, name=full, or_replace=True, if_not_exists=False), place)


def _sources_first(found: Mapping[Name, Wanted], namespace: Sequence[str]) -> list[Wanted]:
    graph, likely = nx.DiGraph(), list[tuple[Name, Name]]()
    graph.add_nodes_from(found)
    for name, wanted in found.items():
        read = _read(wanted.statement.query, namespace)
        if read is None:
            words = set(folded(map(unquote_name, _WORD.findall(wanted.statement.query.text))))
            likely += [(source, name) for source in found if source.parts[-1] in words]
        else:
            graph.add_edges_from((source, name) for source in read if source in found)
    try:
        (first, *_), *_ = cycles = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        for source, reader in likely:
            if not nx.has_path(graph, reader, source):
                graph.add_edge(source, reader)
        return [found[name] for name in nx.lexicographical_topological_sort(graph, key=str)]
    names = " reads ".join(str(reader) for _, reader in reversed(cycles))
    raise InvalidStatement(f"tables read each other: {names} reads {first if len(cycles) == 1 else cycles[-1][1]}")


def _read(query: Query, namespace: Sequence[str]) -> set[Name] | None:
    """Return the names of tables that a query reads; None for a query that only Spark understands.

    They decide the order alone: Spark says what they are. What WITH defines is no table where it is in sight.
    """
    try:
        tree = normalize_identifiers(sqlglot.parse_one(query.text, dialect="databricks"), dialect="databricks")
        scopes = traverse_scope(tree) if isinstance(tree, exp.Query) else []
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    seen = {id(table) for scope in scopes for table in scope.tables}
    queries = (tree, *(each.this for each in tree.find_all(exp.CTE)))
    if not all(isinstance(each, _QUERIES) for each in queries) or any(id(each) not in seen for each in tree.find_all(exp.Table)):
        return None
    tables = (each for scope in scopes for each in scope.sources.values() if isinstance(each, exp.Table))
    named = ([part.name for part in table.parts] for table in tables if isinstance(table.this, exp.Identifier))
    return {Name(folded((*namespace[: 3 - len(parts)], *parts))) for parts in named if len(parts) <= 3}


def planned(spark: SparkSession, wanted: Sequence[Wanted], prune: bool) -> list[Step]:
    """Return what is to be done, sources before readers; with `prune` also the tables of the same schemas that no file defines."""
    listed = (parse_name(quote_full_name(each.name)) for each in StreamTables(spark).list_all())
    there = {Name(folded(name.parts)): name for name in listed}
    steps = list[Step]()
    for each in wanted:
        moving = any(step.kind is not StepKind.NOTHING for step in steps)
        steps.append(_step(spark, each, each.name in there, moving))
    if prune:
        schemas, names = {each.name.parts[:-1] for each in wanted}, {each.name for each in wanted}
        gone = [name for key, name in there.items() if key.parts[:-1] in schemas and key not in names]
        steps += [
            Step(".".join(name.parts), StepKind.DROP, "no file defines it", "", to_sql(DropStreamTable(name, if_exists=True)))
            for name in gone
        ]
    return steps


def _step(spark: SparkSession, wanted: Wanted, there: bool, moving: bool) -> Step:
    sql = to_sql(wanted.statement)

    def step(kind: StepKind, why: str) -> Step:
        return Step(".".join(wanted.statement.name.parts), kind, why, wanted.place, sql)

    try:
        *_, last = spark.sql(f"EXPLAIN {sql}").collect()
    except PySparkException as error:
        if not moving or error.getCondition() != InvalidQuery.condition:
            raise
        why = "its query fits once the tables that it reads are as planned"
        return step(StepKind.REBUILD, why) if there else step(StepKind.CREATE, f"there is no such stream table; {why}")
    if not there:
        return step(StepKind.CREATE, "there is no such stream table")
    does = str(last["reason"])
    if does == f"{SAME}; nothing changes":
        return step(StepKind.NOTHING, SAME)
    return step(StepKind.ALTER if does.startswith(SAME_PLAN) else StepKind.REBUILD, does)


def carried_out(spark: SparkSession, steps: Sequence[Step]) -> Iterator[Step]:
    """Carry the steps out, and yield each when it is done.

    A step that others still stand in the way of, as readers of a column that goes, comes again after them. A table is dropped
    when all other steps are done, or when nothing but readers stands in their way. Raises an error when no step gets further.
    """
    pending = [step for step in steps if step.kind not in (StepKind.NOTHING, StepKind.DROP)]
    drops = [step for step in steps if step.kind is StepKind.DROP]
    while pending or drops:
        waiting = list[tuple[Step, PySparkException]]()
        for step in pending:
            if error := _done(spark, step):
                waiting.append((step, error))
            else:
                yield step
        stuck = len(waiting) == len(pending)
        pending = [step for step, _ in waiting]
        if stuck:
            errors = sorted((error for _, error in waiting), key=_of_readers)
            if not drops or not all(map(_of_readers, errors)):
                raise errors[0]
            pending, drops = drops + pending, []


def _of_readers(error: PySparkException) -> bool:
    return error.getCondition() == DependentsExist.condition


def _done(spark: SparkSession, step: Step) -> PySparkException | None:
    """Carry a step out; return the error where another step may help. Raises any other error."""
    try:
        spark.sql(step.sql).collect()
    except PySparkException as error:
        if error.getCondition() in (DependentsExist.condition, InvalidQuery.condition):
            return error
        raise
    return None
