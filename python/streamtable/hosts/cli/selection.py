"""Which stream tables a command is about: those of some schemas, and those that are not up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import networkx as nx

from streamtable.api.answers import Refreshed
from streamtable.api.tables import StreamTables
from streamtable.catalog.definition import SUSPENDED
from streamtable.hosts.cli.graph import graph_of
from streamtable.language.names import folded
from streamtable.language.parse import parse_name
from streamtable.observe.health import SourceState
from streamtable.refresh.choose import Action
from streamtable.sql.literals import quote_full_name

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

__all__ = ["in_schemas", "to_refresh"]

_SKIPPED = (SUSPENDED, SourceState.UNREADABLE.value)


def in_schemas(spark: SparkSession, schemas: Iterable[str]) -> Callable[[str], bool]:
    """Return a test whether the stream table of a full name is in one of the schemas. Spark refuses a schema that is not there."""
    spaces = list[tuple[str, ...]]()
    for name in map(parse_name, schemas):
        spark.sql(f"DESCRIBE SCHEMA {name}").collect()
        spaces.append(folded(name.parts))

    def inside(table: str) -> bool:
        *space, _ = table.casefold().split(".")
        return any(tuple(space[-len(each) :]) == each for each in spaces)

    return inside


def to_refresh(spark: SparkSession, inside: Callable[[str], bool], only_stale: bool) -> tuple[list[str], list[Refreshed]]:
    """Return the quoted names of the stream tables to refresh, and for those that are skipped the answer of REFRESH STREAM TABLES.

    Skipped are those that are suspended, and those that nobody can read. Stale are those whose sources changed, those that
    were never filled, and all that read them.
    """
    rows = spark.sql("SELECT name, status, version, staleness_seconds, error FROM stream_tables() ORDER BY name").collect()
    if only_stale:
        tables = StreamTables(spark)
        graph = graph_of(tables.dependencies(), (row["name"] for row in rows))
        stale = {row["name"] for row in rows if row["staleness_seconds"] is None or row["staleness_seconds"] > 0}
        stale |= {reader for name in stale for reader in nx.descendants(graph, name)}
        rows = [row for row in rows if row["name"] in stale]
    rows = [row for row in rows if inside(row["name"])]
    asked = [quote_full_name(row["name"]) for row in rows if row["status"] not in _SKIPPED]
    return asked, [_skipped(row) for row in rows if row["status"] in _SKIPPED]


def _skipped(row: Row) -> Refreshed:
    why = "the table is suspended" if row["status"] == SUSPENDED else row["error"]
    return Refreshed(row["name"], Action.SKIPPED.value, why, 0, 0, 0, row["version"])
