"""Definitions out of one catalog and into another: a script of SET, USE and CREATE statements, sources before readers."""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
from pyspark.sql import SparkSession

from streamtable.api.tables import StreamTables
from streamtable.cli.graph import graph_of
from streamtable.sql.literals import quote_name

__all__ = ["exported"]

SETTING = "setting "


def exported(spark: SparkSession) -> Iterator[str]:
    """Yield the statements that make all stream tables anew, in an order in which each finds what it reads.

    A query is read where and as it was when the table was created: the current schema is set before each CREATE, and those of
    the captured settings that this session has otherwise.
    """
    tables = StreamTables(spark)
    graph = graph_of(tables.dependencies())
    names = [each.name for each in tables.list_all()]
    graph.add_nodes_from(names)
    changed = dict[str, str]()
    for name in nx.lexicographical_topological_sort(graph):
        if name in names:
            table = tables.get(".".join(map(quote_name, name.split("."))))
            described = table.describe(extended=True)
            wanted = {key.removeprefix(SETTING): value or "" for key, value in described.items() if key.startswith(SETTING)}
            different = {key: value for key, value in wanted.items() if spark.conf.get(key, None) != value}
            yield from (f"RESET {key}" for key in changed.keys() - different.keys())
            yield from (f"SET {key} = {value}" for key, value in different.items() if changed.get(key) != value)
            changed = different
            yield f"USE {described['namespace']}"
            yield table.show_create()
