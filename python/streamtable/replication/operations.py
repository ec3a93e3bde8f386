"""The changes by a table's commits: operations I(nsert), U(pdate), D(elete) on keys, or rows with weights if there is no key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.identity import comparable
from streamtable.delta.rows import COMMIT_VERSION, change_set, read
from streamtable.errors import SourceChanged
from streamtable.replication.source import SourceTable
from streamtable.sql.builder import qualified

__all__ = ["NOT_UNIQUE", "NUMBER", "OPERATION", "ROW", "VERSION", "form", "keyed", "keys_of", "snapshot", "weighted"]

VERSION, ROW, OPERATION = "__version", "__row", "__operation"
NOT_UNIQUE = "?"
"""The operation on a key that several rows have."""

NUMBER = "__number"
"""The column with the number of times that a row came; negative for rows that went."""


def snapshot(session: SparkSession, source: SourceTable, target: StructType) -> DataFrame:
    """Return the initial rows as inserts. The publication's condition applies to them, its list of operations does not."""
    rows = read(session, source.path, source.version).where(source.passes())
    return _inserts(rows, F.lit(source.version).cast("bigint").alias(VERSION), source, target)


def weighted(
    session: SparkSession,
    source: SourceTable,
    target: StructType,
    after: int,
    upto: int,
    left_out: Collection[int],
    kinds: Mapping[int, str | None],
) -> DataFrame:
    """Return the rows that came (+1) and went (-1), each with its version. `kinds` is the operation of the rows of a version."""
    changes = _changes(session, source, after, upto, left_out)[0]
    versions = {kind: [version for version, each in kinds.items() if each == kind] for kind in set(kinds.values()) - {None}}
    sent = [F.col(COMMIT_VERSION).isin(*some) & source.passes(kind) for kind, some in versions.items()]
    rows = changes.where(reduce(Column.__or__, sent, F.lit(False)))
    return rows.select(_version(), F.col(WEIGHT.id).alias(NUMBER), _row(rows, source, target).alias(ROW))


def keyed(
    session: SparkSession,
    source: SourceTable,
    target: StructType,
    after: int,
    upto: int,
    left_out: Collection[int],
    updates: Collection[int] = (),
) -> DataFrame:
    """Return at most one operation per version and key; `ROW` has the new values.

    If only the new or only the old row of an update is sent, the update is an insert or a delete for the subscriber. An update that
    changes the key is a delete and an insert, because it is unknown which old key became which new one. In versions that only
    update (`updates`), both are sent as parts of an update.
    """
    changes, appends_only = _changes(session, source, after, upto, left_out)
    sent = {kind: source.passes(kind) for kind in ("insert", "update", "delete") if source.publishes(kind)}
    # By the key alone, as those who look at each key's operations in turn need it: one shuffle is enough for both.
    keys = keys_of(source)
    if appends_only:
        return _inserts(changes.where(sent.get("insert", F.lit(False))), _version(), source, target).repartition(*keys)
    passing = (condition.alias(f"__{kind}") for kind, condition in sent.items())
    row = _row(changes, source, target, source.passes())
    rows = changes.select(_version(), F.col(WEIGHT.id).alias(NUMBER), row.alias(ROW), *passing)
    rows = rows.select("*", *_key(source)).repartition(*keys)
    # What went comes first: what came next to it in the same version is the other side of an update.
    at_once = Window.partitionBy(*keys, VERSION).orderBy(NUMBER)
    before = {f"{name}_before": F.lag(name).over(at_once) for name in (NUMBER, ROW, *(f"__{kind}" for kind in sent))}
    paired = rows.withColumns({**before, "__next": F.lead(NUMBER).over(at_once)})
    came, next_to = F.col(NUMBER) > 0, F.col(f"{NUMBER}_before")
    pair, alone = came & (next_to < 0), came | F.col("__next").isNull()
    moves = F.col(VERSION).isin(*updates) if updates else F.lit(False)
    same = reduce(Column.__and__, [_same(field.name, field.dataType) for field in _fields(paired.schema)])
    old_sent, new_sent = _passed(sent, "update", "_before"), _passed(sent, "update")
    operation = (
        F.when((next_to == F.col(NUMBER)) | (F.col("__next") == F.col(NUMBER)), NOT_UNIQUE)
        .when(pair & old_sent & new_sent, F.when(~same, "U"))
        .when(pair, F.when(new_sent, "I").when(old_sent, "D"))
        .when(alone & F.when(moves, new_sent).when(came, _passed(sent, "insert")).otherwise(_passed(sent, "delete")), _only(came))
    )
    return paired.select(VERSION, *keys, ROW, operation.alias(OPERATION)).where(F.col(OPERATION).isNotNull())


def keys_of(source: SourceTable) -> list[str]:
    """Name the columns with the subscriber's key of an operation; none without a key."""
    return [f"__key{n}" for n in range(len(source.key or ()))]


def form(value: Column, kind: DataType) -> Column:
    """Return a value in a form whose equality is identity."""
    return value if comparable(kind.simpleString()) else F.call_function("st_identity", value)


def _passed(sent: Mapping[str, Column], kind: str, side: str = "") -> Column:
    return F.col(f"__{kind}{side}") if kind in sent else F.lit(False)


def _only(came: Column) -> Column:
    return F.when(came, "I").otherwise("D")


def _same(name: str, kind: DataType) -> Column:
    return form(F.col(ROW)[name], kind).eqNullSafe(form(F.col(f"{ROW}_before")[name], kind))


def _fields(schema: StructType) -> StructType:
    row = schema[ROW].dataType
    assert isinstance(row, StructType), "it is made by _row"
    return row


def _version() -> Column:
    return F.col(COMMIT_VERSION).alias(VERSION)


def _changes(
    session: SparkSession, source: SourceTable, after: int, upto: int, left_out: Collection[int]
) -> tuple[DataFrame, bool]:
    """Return the changed rows, and whether all of them came."""
    changes = change_set(session, source.path, after, upto)
    kept = changes.frame.where(~F.col(COMMIT_VERSION).isin(*left_out)) if left_out else changes.frame
    return kept, changes.appends_only


def _inserts(rows: DataFrame, version: Column, source: SourceTable, target: StructType) -> DataFrame:
    sent = rows.select(version, _row(rows, source, target).alias(ROW))
    return sent.select("*", *_key(source), F.lit("I").alias(OPERATION))


def _key(source: SourceTable) -> list[Column]:
    return [F.col(ROW)[name].alias(each) for each, name in zip(keys_of(source), source.key or (), strict=True)]


def _row(rows: DataFrame, source: SourceTable, target: StructType, sent: Column | None = None) -> Column:
    """Return the sent columns as the subscriber's columns: matched by name, with types converted through text.

    A value that cannot be converted is an error in any ANSI mode. If the row is not sent, the value is NULL, unless it is in the
    key.
    """
    theirs = {field.name.casefold(): field for field in target}
    if missing := [name for name in source.columns if name.casefold() not in theirs]:
        hint = "add the column to the subscriber's table, or publish a list of columns without it"
        raise SourceChanged(f"the subscriber's table of {source.name} has no column {missing[0]}", hint=hint)

    def converted(name: str) -> Column:
        mine, wanted = rows.schema[name].dataType, theirs[name.casefold()].dataType
        value = F.col(qualified((name,)))
        if mine.simpleString() == wanted.simpleString():  # comments and NOT NULL in a nested type make no other type
            return value.alias(name)
        text = value.cast("string")
        says = F.lit(f"the subscriber's column {name} is {wanted.simpleString()}, to which this value cannot be converted: ")
        fails = text.isNotNull() if sent is None or name in (source.key or ()) else text.isNotNull() & sent
        failed = F.when(fails, F.raise_error(F.concat(says, text)))
        return F.coalesce(text.try_cast(wanted), failed).alias(name)

    return F.struct(*map(converted, source.columns))
