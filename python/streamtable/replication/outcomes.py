"""The outcomes of operations on keys, in the order of versions: done, in conflict, or without the row that they change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from streamtable.algebra.columns import POSITION
from streamtable.replication.operations import NOT_UNIQUE, OPERATION, ROW, VERSION

__all__ = ["COPIES", "COUNTED", "FIRST", "INSERTED", "LAST", "OUTCOME", "WRITTEN", "clashes", "resolved"]

OUTCOME = "__outcome"
"""I, U or D for a done operation, NOT_UNIQUE or insert_exists for a conflict, else the kind of the missing row."""
FIRST, LAST = "__first", "__last"
"""Whether the operation is the first one on an existing row, or the last one on its key."""
INSERTED = "__inserted"
"""Whether the key was inserted by this operation or one before it."""
COPIES = "__copies"
"""The number of rows with the key; more than one if the key is not unique in the subscriber's table."""
WRITTEN = "__written"
"""The commit that wrote the existing row, if the table tells."""

_MISSING = {"U": "update_missing", "D": "delete_missing"}
COUNTED = ("I", "U", "D", *_MISSING.values())

_THERE, _BEFORE_ALL = "P", -1
"""The operation and the version of an existing row."""


def resolved(operations: DataFrame, rows: DataFrame, keys: Sequence[str], small: bool) -> DataFrame:
    """Add the outcome of each operation on `keys`, and the position of the row. `rows` have the keys, `WRITTEN` and a position.

    Existing rows count as operations before all others, so one sort of both gives all outcomes. Every task gets the keys of `small`
    operations, so no other rows are moved.
    """
    touched = operations.select(*(F.col(each).alias(f"{each}_touched") for each in keys))
    touched = F.broadcast(touched) if small else touched
    same = (F.col(each).eqNullSafe(F.col(f"{each}_touched")) for each in keys)
    there = rows.join(touched, reduce(Column.__and__, same), "left_semi").withColumns(
        {VERSION: F.lit(_BEFORE_ALL).cast("bigint"), OPERATION: F.lit(_THERE)}
    )
    # Moved as operations are, which are cached so: what is in its place already stays there.
    both = there.repartition(*keys).unionByName(operations.select(*keys, VERSION, OPERATION, ROW), allowMissingColumns=True)
    in_turn, operation, version = Window.partitionBy(*keys).orderBy(VERSION), F.col(OPERATION), F.col(VERSION)
    before, so_far = (in_turn.rowsBetween(Window.unboundedPreceding, end) for end in (-1, Window.currentRow))
    exists = F.when(operation.isin("I", _THERE), True).when(operation == "D", False)
    known = both.withColumns(
        {
            "__exists": F.coalesce(F.last(exists, ignorenulls=True).over(before), F.lit(False)),
            "__again": (F.lag(version).over(in_turn) == version) | (F.lead(version).over(in_turn) == version),
            FIRST: F.lag(operation).over(in_turn) == _THERE,
            LAST: F.lead(version).over(in_turn).isNull(),
            INSERTED: F.max(operation == "I").over(so_far),
            COPIES: F.count_if(operation == _THERE).over(so_far),
            **{name: F.first(name, ignorenulls=True).over(so_far) for name in (WRITTEN, *POSITION)},
        }
    )
    return known.where(operation != _THERE).withColumn(OUTCOME, _outcome(operation))


def clashes() -> Column:
    """Tell whether an operation is a conflict."""
    return F.col(OUTCOME).isin("insert_exists", NOT_UNIQUE)


def _outcome(operation: Column) -> Column:
    outcome = (
        F.when((operation == NOT_UNIQUE) | F.col("__again"), NOT_UNIQUE)
        .when((operation == "I") & F.col("__exists"), "insert_exists")
        .when((operation == "I") | F.col("__exists"), operation)
    )
    for kind, missing in _MISSING.items():
        outcome = outcome.when(operation == kind, missing)
    return outcome
