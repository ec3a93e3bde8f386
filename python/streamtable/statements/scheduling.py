"""The statements that speak to schedulers: REFRESH ... ASYNC and ALTER SCHEDULER."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyspark.sql import SparkSession
from pyspark.sql.types import StringType, StructType

from streamtable.catalog.definition import SUSPENDED
from streamtable.catalog.entries import load
from streamtable.language.stream_table.ast import RefreshStreamTable, RefreshStreamTables
from streamtable.language.stream_table.scheduler import AlterScheduler
from streamtable.observe.results import Rows, columns
from streamtable.refresh.choose import Action
from streamtable.schedule.requests import request
from streamtable.schedule.switch import switch, turn
from streamtable.statements.show import readable

__all__ = ["NOT_NOW", "describe_scheduling", "run_scheduling"]

Scheduling: TypeAlias = RefreshStreamTable | RefreshStreamTables | AlterScheduler

_REQUESTED = columns(name=StringType, request=StringType, status=StringType, reason=StringType)
_SWITCHED = columns(status=StringType)

NOT_NOW = "the table is suspended"
"""Why a statement for all tables leaves one out."""


def describe_scheduling(statement: Scheduling) -> StructType:
    """Return the columns of the statement's result."""
    return _SWITCHED if isinstance(statement, AlterScheduler) else _REQUESTED


def run_scheduling(spark: SparkSession, statement: Scheduling) -> Rows:
    """Carry the statement out and return the rows of its result."""
    match statement:
        case AlterScheduler(suspend):
            return [("SUSPENDED" if turn(spark, suspend).suspended_since else "RUNNING",)]
        case RefreshStreamTable(names, full, with_sources):
            tables = [load(spark, name) for name in names]
            return _requested(spark, request(spark, tables, full, with_sources))
        case RefreshStreamTables(namespace, like, full):
            tables, why = readable(spark, namespace, like)
            why |= {each.definition.name: NOT_NOW for each in tables if each.definition.status == SUSPENDED}
            active = [each for each in tables if each.definition.status != SUSPENDED]
            made = _requested(spark, request(spark, active, full, with_sources=False))
            return [*made, *((name, None, Action.SKIPPED.value, reason) for name, reason in why.items())]


def _requested(spark: SparkSession, made: Mapping[str, str]) -> Rows:
    waits = "it waits for a scheduler of this catalog; refresh_history() has it under this request"
    if switch(spark).suspended_since:
        waits = "the schedulers are suspended, and do it after ALTER SCHEDULER RESUME"
    return [(name, each, "REQUESTED", waits) for name, each in made.items()]
