"""What a table's commits did, as operations: I(nsert), U(pdate), D(elete) of keys, or rows with weights where there is no key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from streamtable.algebra.identity import comparable
from streamtable.algebra.operators import WEIGHT
from streamtable.delta.rows import change_set, read
from streamtable.errors import SourceChanged
from streamtable.replication.source import Source
from streamtable.sql.builder import qualified

__all__ = ["KEY", "NOT_UNIQUE", "NUMBER", "OPERATION", "ROW", "VERSION", "form", "keyed", "snapshot", "weighted"]

VERSION, KEY, ROW, OPERATION = "__version", "__key", "__row", "__operation"
NOT_UNIQUE = "?"
"""The operation on a key that several rows have."""

NUMBER = "__number"
"""The column with how often a row came, negative if it went."""


def snapshot(session: SparkSession, source: Source, target: StructType) -> DataFrame:
    """Return the rows to begin with as inserts; what a publication publishes does not matter to them, its condition does."""
    rows = read(session, source.path, source.version).where(source.passes())
    kept = rows.select(F.lit(source.version).cast("bigint").alias(VERSION), _row(rows, source, target).alias(ROW))
    return kept.select("*", *_key(source), F.lit("I").alias(OPERATION))


def weighted(
    session: SparkSession, source: Source, target: StructType, after: int, upto: int, left_out: Collection[int]
) -> DataFrame:
    """Return the rows that came (+1) and went (-1) and are sent, each with its version."""
    rows = _changes(session, source, after, upto, left_out).where(source.passes())
    return rows.select(_version(), F.col(WEIGHT.id).alias(NUMBER), _row(rows, source, target).alias(ROW))


def keyed(
    session: SparkSession,
    source: Source,
    target: StructType,
    after: int,
    upto: int,
    left_out: Collection[int],
    updates: Collection[int] = (),
) -> DataFrame:
    """Return at most one operation per version and key; `ROW` has the new values.

    An update whose old or new row alone is sent is an insert or a delete for the subscriber. So is one that changes the key: which
    old key became which new one is not known, but in versions that only update (`updates`) both are sent as parts of an update.
    """
    changes = _changes(session, source, after, upto, left_out)
    sent = {kind: source.passes(kind) for kind in ("insert", "update", "delete") if source.publishes(kind)}
    passing = (condition.alias(f"__{kind}") for kind, condition in sent.items())
    row = _row(changes, source, target, source.passes())
    rows = changes.select(_version(), F.col(WEIGHT.id).alias(NUMBER), row.alias(ROW), *passing)
    rows = rows.select("*", *_key(source))
    came, went = F.col(NUMBER) > 0, F.col(NUMBER) < 0
    sides = [
        F.count_if(came).alias("__came"),
        F.count_if(went).alias("__went"),
        F.first(F.when(came, F.col(ROW)), ignorenulls=True).alias(ROW),
        F.first(F.when(went, F.col(ROW)), ignorenulls=True).alias("__old"),
        *(F.max(F.when(side, F.col(f"__{kind}"))).alias(f"__{kind}{n}") for kind in sent for n, side in enumerate((went, came))),
    ]
    moves = F.col(VERSION).isin(*updates) if updates else F.lit(False)
    paired = rows.groupBy(VERSION, KEY).agg(*sides)
    same = reduce(Column.__and__, [_same(field.name, field.dataType) for field in _fields(paired.schema)])
    operation = (
        F.when((F.col("__came") > 1) | (F.col("__went") > 1), NOT_UNIQUE)
        .when(F.col("__went") == 0, F.when(F.when(moves, _passed(sent, "update", 1)).otherwise(_passed(sent, "insert", 1)), "I"))
        .when(F.col("__came") == 0, F.when(F.when(moves, _passed(sent, "update", 0)).otherwise(_passed(sent, "delete", 0)), "D"))
        .when(_passed(sent, "update", 0) & _passed(sent, "update", 1), F.when(~same, "U"))
        .when(_passed(sent, "update", 1), "I")
        .when(_passed(sent, "update", 0), "D")
    )
    return paired.select(VERSION, KEY, ROW, operation.alias(OPERATION)).where(F.col(OPERATION).isNotNull())


def form(value: Column, kind: DataType) -> Column:
    """Return a value in a form that can be compared, and grouped by."""
    return value if comparable(kind.simpleString()) else F.to_json(F.struct(value))


def _passed(sent: Mapping[str, Column], kind: str, side: int) -> Column:
    return F.col(f"__{kind}{side}") if kind in sent else F.lit(False)


def _same(name: str, kind: DataType) -> Column:
    return form(F.col(ROW)[name], kind).eqNullSafe(form(F.col("__old")[name], kind))


def _fields(schema: StructType) -> StructType:
    row = schema[ROW].dataType
    assert isinstance(row, StructType), "it is made by _row"
    return row


def _version() -> Column:
    return F.col("__streamtable_version").alias(VERSION)


def _changes(session: SparkSession, source: Source, after: int, upto: int, left_out: Collection[int]) -> DataFrame:
    changes = change_set(session, source.path, after, upto).frame
    return changes.where(~F.col("__streamtable_version").isin(*left_out)) if left_out else changes


def _key(source: Source) -> list[Column]:
    """Return the key of a row as the subscriber has it; nothing where there is none."""
    return [F.struct(*(F.col(ROW)[name].alias(name) for name in source.key)).alias(KEY)] if source.key else []


def _row(rows: DataFrame, source: Source, target: StructType, sent: Column | None = None) -> Column:
    """Return the columns that are sent as the subscriber has them: found by name, types converted through text.

    A value that cannot be converted is an error, whatever ANSI mode was in force at CREATE SUBSCRIPTION; NULL only where the row is
    not sent, unless it is part of the key.
    """
    theirs = {field.name.casefold(): field for field in target}
    if missing := [name for name in source.columns if name.casefold() not in theirs]:
        hint = "add the column to the subscriber's table, or publish a list of columns without it"
        raise SourceChanged(f"the subscriber's table of {source.name} has no column {missing[0]}", hint=hint)

    def converted(name: str) -> Column:
        mine, wanted = rows.schema[name].dataType, theirs[name.casefold()].dataType
        value = F.col(qualified((name,)))
        if mine == wanted:
            return value.alias(name)
        text = value.cast("string")
        says = F.lit(f"the subscriber's column {name} is {wanted.simpleString()}, to which this value cannot be converted: ")
        fails = text.isNotNull() if sent is None or name in (source.key or ()) else text.isNotNull() & sent
        failed = F.when(fails, F.raise_error(F.concat(says, text)))
        return F.coalesce(text.try_cast(wanted), failed).alias(name)

    return F.struct(*map(converted, source.columns))
