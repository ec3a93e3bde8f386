"""A folder of definitions is read: the tables that its files define, in an order that works."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import networkx as nx
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.optimizer.scope import traverse_scope

from streamtable.errors import InvalidStatement, StreamTableError
from streamtable.language.names import Name, Query, folded
from streamtable.language.parse import parse
from streamtable.language.scripts import split
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.sql.literals import unquote_name

__all__ = ["Wanted", "wanted_in"]

_WORD = re.compile(r"`(?:[^`]|``)+`|\w+")
_QUERIES = (exp.Query, exp.Values)


@dataclass(frozen=True)
class Wanted:
    """A table that a file defines; `name` is its full name, `place` the file and the line.

    `reads` are the names in its query, of a WITH excepted; None for a query that only Spark understands.
    """

    name: Name
    statement: CreateStreamTable
    place: str
    reads: frozenset[Name] | None


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
    return _sources_first(found)


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
    whole = replace(statement, name=full, or_replace=True, if_not_exists=False)
    return Wanted(Name(folded(full.parts)), whole, place, _read(statement.query, namespace))


def _sources_first(found: Mapping[Name, Wanted]) -> list[Wanted]:
    graph, likely = nx.DiGraph(), list[tuple[Name, Name]]()
    graph.add_nodes_from(found)
    for name, wanted in found.items():
        if wanted.reads is None:
            words = set(folded(map(unquote_name, _WORD.findall(wanted.statement.query.text))))
            likely += [(source, name) for source in found if source.parts[-1] in words]
        else:
            graph.add_edges_from((source, name) for source in wanted.reads if source in found)
    try:
        (first, *_), *_ = cycles = nx.find_cycle(graph)
    except nx.NetworkXNoCycle:
        for source, reader in likely:
            if not nx.has_path(graph, reader, source):
                graph.add_edge(source, reader)
        return [found[name] for name in nx.lexicographical_topological_sort(graph, key=str)]
    names = " reads ".join(str(reader) for _, reader in reversed(cycles))
    raise InvalidStatement(f"tables read each other: {names} reads {first if len(cycles) == 1 else cycles[-1][1]}")


def _read(query: Query, namespace: Sequence[str]) -> frozenset[Name] | None:
    """Return the names of tables that a query reads; None for a query that only Spark understands.

    They decide the order, and the tables that cannot be dropped: Spark says what they are. What WITH defines is no table where it
    is in sight.
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
    return frozenset(Name(folded((*namespace[: 3 - len(parts)], *parts))) for parts in named if len(parts) <= 3)
