"""Definitions out of one catalog and into another: a script of SET, USE, CREATE and ALTER statements, sources before readers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import networkx as nx
from pyspark.sql import SparkSession

from streamtable.api.tables import StreamTables
from streamtable.catalog.definition import SUSPENDED
from streamtable.catalog.graph import without_cycles
from streamtable.hosts.cli.graph import graph_of
from streamtable.language.comments import pieces
from streamtable.language.parse import parse_name
from streamtable.language.stream_table.ast import AlterStreamTable, Suspend
from streamtable.language.write import to_sql
from streamtable.sql.literals import quote_full_name, quote_name

__all__ = ["exported"]

SETTING = "setting "


def exported(spark: SparkSession, inside: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
    """Yield the statements that make the stream tables anew whose names pass `inside`, sources before their readers.

    A query is read in its original context: before each CREATE the current schema is set, and all captured settings, unless the
    script has set them already. The session of an import may have others. In the end the settings are reset. Suspended tables are
    suspended again.
    """
    tables = StreamTables(spark)
    status = {each.name: each.status for each in tables.list_all()}
    graph = graph_of(tables.dependencies(), status)
    changed, schemas = dict[str, str](), set[str]()
    for name in nx.lexicographical_topological_sort(without_cycles(graph)):
        if name in status and inside(name):
            schema, _, _ = (written := quote_full_name(name)).rpartition(".")
            table = tables.get(written)
            described = table.describe(extended=True)
            wanted = {key.removeprefix(SETTING): value or "" for key, value in described.items() if key.startswith(SETTING)}
            yield from (_reset(key) for key in sorted(changed.keys() - wanted.keys()))
            yield from (_set(key, value) for key, value in wanted.items() if changed.get(key) != value)
            changed = wanted
            namespace = described["namespace"] or ""
            for needed in (schema, namespace):
                if needed not in schemas:
                    schemas.add(needed)
                    yield f"CREATE SCHEMA IF NOT EXISTS {needed}"
            yield f"USE {namespace}"
            yield _plain(table.show_create())
            if status[name] == SUSPENDED:
                yield to_sql(AlterStreamTable(parse_name(table.name), Suspend()))
    yield from (_reset(key) for key in changed)


def _set(key: str, value: str) -> str:
    """Set a setting; Spark reads a value in backquotes as it is, and nothing where there is none."""
    return f"SET {quote_name(key)} = {quote_name(value)}" if value else f"SET {key}="


def _reset(key: str) -> str:
    return f"RESET {quote_name(key)}"


def _plain(statement: str) -> str:
    """Return the statement without comments that an import would take for the mark of a notebook's cell."""
    parts = ((kind, statement[start:end]) for kind, start, end in pieces(statement, strict=False))
    return "".join(_MARK.sub("--  ", text) if kind == "line" else text for kind, text in parts)


_MARK = re.compile(r"^-- (?=COMMAND|MAGIC)")
