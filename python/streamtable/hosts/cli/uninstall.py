"""What `streamtable uninstall` drops: all that CREATE statements of streamtable made, each before what it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from streamtable.catalog.entries import schemas
from streamtable.hosts.cli.failures import ERRORS_OF_SPARK, ended, said
from streamtable.language.names import Name
from streamtable.sql.literals import quote_full_name

__all__ = ["DROPPED", "Removal", "removals", "removed"]

DROPPED = "DROPPED"

_SLOTS = "SELECT DISTINCT slot FROM replication_slots() WHERE slot NOT LIKE '%/%' ORDER BY slot"
"""The slots of the catalog. Those that are paths are of another one: a subscription drops its own."""

_LISTED = (
    ("subscription", "SELECT name FROM subscriptions() ORDER BY name", "DROP SUBSCRIPTION IF EXISTS {}"),
    ("publication", "SELECT name FROM publications() ORDER BY name", "DROP PUBLICATION IF EXISTS {}"),
    ("replication slot", _SLOTS, "DROP REPLICATION SLOT IF EXISTS {}"),
    ("queue", None, "DROP QUEUE IF EXISTS {} FORCE"),
    ("stream table", "SELECT name FROM stream_tables() ORDER BY name", "DROP STREAM TABLE IF EXISTS {} CASCADE"),
)
"""The kinds of objects, in the order in which they are dropped: the statements that list them and drop one."""


@dataclass(frozen=True)
class Removal:
    """One object, and the statement that drops it."""

    kind: str
    name: str
    sql: str


def removals(spark: SparkSession) -> Iterator[Removal]:
    """Yield all objects of the catalog, in the order in which they are to be dropped."""
    for kind, listing, drop in _LISTED:
        names = _queues(spark) if listing is None else (name for (name,) in spark.sql(listing).collect())
        yield from (Removal(kind, name, drop.format(quote_full_name(name))) for name in names)


def _queues(spark: SparkSession) -> Iterator[str]:
    for schema in schemas(spark):
        yield from (row["name"] for row in spark.sql(f"SHOW QUEUES IN {Name(schema)}").collect())


def removed(spark: SparkSession, removal: Removal) -> str:
    """Drop one object; return DROPPED, or what stands in the way. Raises the error of a session that ended."""
    try:
        spark.sql(removal.sql).collect()
    except ERRORS_OF_SPARK as error:
        if ended(error):
            raise
        return str(said(error)["message"])
    return DROPPED
