"""Every query of which a test creates a stream table, once more over sources of each layout: `./run test --layouts`.

Each source is copied in each layout into a schema of its own, where the stream table is created again, and refreshed after a change of
each source alone. What reads other schemas, files or functions of the catalog is left out, and counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any
from unittest.mock import patch

from delta.tables import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DateType, IntegerType, LongType, StringType
from tests.oracle.comparison import assert_exact

from streamtable.catalog.entries import Entry, load
from streamtable.definitions.create import create
from streamtable.errors import RefreshError
from streamtable.language.names import Name
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.language.write import to_sql
from streamtable.sessions.internal import lent

LAYOUTS = {
    "plain": ("", "false"),
    "feed": ("", "true"),
    "partitioned": ("PARTITIONED BY ({column})", "false"),
    "partitioned, feed": ("PARTITIONED BY ({column})", "true"),
}
"""Where the rows of a source lie, and whether it has a change data feed."""

_PARTS = (IntegerType(), LongType(), DateType(), StringType(), BooleanType())
_MOVING = re.compile(r"current_|now\s*\(|rand|uuid|localtimestamp", re.IGNORECASE)
_schemas = count()


@contextmanager
def trying(spark: SparkSession, layouts: Mapping[str, tuple[str, str]] = LAYOUTS) -> Iterator[Counter[str]]:
    """Try each query that is created meanwhile again in each layout; yield how often what happened."""
    happened, busy = Counter[str](), [False]

    def created(session: SparkSession, statement: CreateStreamTable) -> Any:
        done = create(session, statement)
        if not busy[0]:
            busy[0] = True
            try:
                happened.update(_again(spark, load(session, statement.name), layouts))
            finally:
                busy[0] = False
        return done

    with patch("streamtable.statements.dispatch.create", created):
        yield happened


def _again(spark: SparkSession, entry: Entry, layouts: Mapping[str, tuple[str, str]]) -> Counter[str]:
    schema = tuple(entry.definition.namespace)
    read = [tuple(name.split(".")) for name in (*entry.definition.sources.values(), *entry.views)]
    if entry.functions or not entry.definition.sources or any(parts[:-1] != schema for parts in read):
        return Counter(["left out"])
    happened = Counter[str]()
    for layout, (partitioned, feed) in layouts.items():
        name = f"layouts_{next(_schemas)}"
        spark.sql(f"CREATE DATABASE {name}")
        try:
            for source in entry.definition.sources.values():
                _copy(spark, source, name, partitioned, feed)
            with lent(spark, (schema[0], name), entry.definition.settings) as session:
                for view in reversed(entry.views):
                    _copy_view(session, view)
                happened.update(_changed(session, entry, layout, name))
        finally:
            spark.sql(f"DROP DATABASE {name} CASCADE")
    return happened


def _copy(spark: SparkSession, source: str, to: str, partitioned: str, feed: str) -> None:
    name, fields = Name(tuple(source.split("."))), spark.table(source).schema.fields
    column = next((f"`{each.name}`" for each in fields if each.dataType in _PARTS), None) if len(fields) > 1 else None
    clause = partitioned.format(column=column) if column else ""
    copied = Name((to, name.parts[-1]))
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"CREATE TABLE {copied} USING delta {clause} {mapped} AS SELECT * FROM {name}")
    # Delta takes no rows in a commit that turns on both the mapping of columns and the feed.
    spark.sql(f"ALTER TABLE {copied} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{feed}')")


def _copy_view(session: SparkSession, view: str) -> None:
    described = {row[0]: row[1] for row in session.sql(f"DESCRIBE TABLE EXTENDED {view}").collect()}
    columns = ", ".join(f"`{each}`" for each in session.table(view).columns)
    session.sql(f"CREATE VIEW `{view.rsplit('.', maxsplit=1)[-1]}` ({columns}) AS {described['View Text']}")


def _changed(session: SparkSession, entry: Entry, layout: str, schema: str) -> Iterator[str]:
    statement = replace(entry.definition.statement, name=Name(("again",)), location=None, if_not_exists=False, or_replace=False)
    session.sql(to_sql(statement))
    sources, query = load(session, statement.name).definition.sources.values(), statement.query.text
    if any(each.split(".")[1] != schema for each in sources):
        yield "left out"
        return
    for source in sorted(set(sources)):
        for change in ("insert", "delete"):
            if change == "insert":
                session.sql(f"INSERT INTO {source} SELECT * FROM {source} LIMIT 2")
            else:
                _delete_first(session, source)
            try:
                session.sql("REFRESH STREAM TABLE again")
            except RefreshError:
                try:
                    session.sql(query).collect()
                except PySparkException:
                    yield "the query fails"
                    return
                raise
            try:
                if statement.frozen or statement.expectations or _MOVING.search(query):  # the contents are not those of the text
                    assert session.sql("VERIFY STREAM TABLE again").collect()[0]["ok"]
                else:
                    assert_exact(session, "again", query)
            except AssertionError as error:
                raise AssertionError(f"{layout}, after {change} of {source}: {error}\n{query}") from error
            yield layout


def _delete_first(session: SparkSession, source: str) -> None:
    """Delete the rows that have a value of the first row, in the first column that can be compared."""
    rows = session.table(source)
    column = next((each.name for each in rows.schema.fields if each.dataType in _PARTS), None)
    if column and (first := rows.select(f"`{column}`").first()):
        DeltaTable.forName(session, source).delete(F.col(f"`{column}`").eqNullSafe(F.lit(first[0])))
