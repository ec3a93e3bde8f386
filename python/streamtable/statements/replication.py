"""The statements and table functions of replication: the columns of their results, and the functions that carry them out."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructType

from streamtable.catalog.kinds import CatalogObject
from streamtable.language.replication.ast import (
    AlterPublication,
    AlterSubscription,
    ApplySubscription,
    CreatePublication,
    CreateReplicationSlot,
    CreateSubscription,
    DropPublication,
    DropSubscription,
    ReplicationStatement,
)
from streamtable.observe.results import Rows, columns
from streamtable.replication import alter, publications, run

__all__ = ["describe_replication", "run_replication"]

_STATUS = columns(name=StringType, status=StringType)
_APPLIED = columns(
    table=StringType,
    state=StringType,
    position=LongType,
    inserts=LongType,
    updates=LongType,
    deletes=LongType,
    update_missing=LongType,
    delete_missing=LongType,
    update_origin_differs=LongType,
    delete_origin_differs=LongType,
)


def describe_replication(statement: ReplicationStatement) -> StructType:
    """Return the columns of the statement's result."""
    return _APPLIED if isinstance(statement, ApplySubscription) else _STATUS


def run_replication(spark: SparkSession, statement: ReplicationStatement) -> Rows:
    """Carry the statement out and return the rows of its result."""
    dropped: CatalogObject | None
    match statement:
        case ApplySubscription(name):
            progress = run.apply(spark, name)
            return [(each.table, each.state, each.position, *vars(each.applied).values()) for each in progress]
        case CreatePublication():
            return [(str(publications.create(spark, statement)), "CREATED")]
        case CreateSubscription():
            return [(str(alter.create(spark, statement)), "CREATED")]
        case CreateReplicationSlot():
            return [(str(alter.create_slot(spark, statement)), "CREATED")]
        case AlterPublication():
            return [(str(publications.alter(spark, statement)), "ALTERED")]
        case AlterSubscription():
            return [(str(alter.alter(spark, statement)), "ALTERED")]
        case DropPublication():
            return [(str(each), "DROPPED") for each in publications.drop(spark, statement)]
        case DropSubscription():
            dropped = alter.drop(spark, statement)
        case _:
            dropped = alter.drop_slot(spark, statement)
    return [(str(dropped), "DROPPED")] if dropped else []
