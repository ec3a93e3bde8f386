"""Rows without a key: each is known by its whole content, and of equal rows any is taken.

A row that comes adds a copy. A row that goes takes one away, and does nothing where the subscriber has none. Let d1 ... dn be the
changes of one content, and S1 ... Sn their running sums. Then c copies become Sn + max(c, N), where N = max(0, -min Si) is how many
copies the changes need. Why: a step is x -> max(0, x + d), and such steps compose to x -> max(x + Sn, max over i of Sn - Si).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from streamtable.algebra.columns import POSITION
from streamtable.replication.operations import NUMBER, ROW, VERSION, form
from streamtable.sql.builder import qualified

__all__ = ["MISSING", "NEEDED", "found", "going", "netted", "settled"]

NEEDED = "__needed"
"""The number of copies without which a removal meets no row."""
MISSING = "__missing"
"""The number of removals that meet no row."""
COPIES, _NTH = "__copies", "__nth"


def netted(rows: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
    """Return one row per content: its `ROW`, its forms, its NUMBER in all, and how many copies are `NEEDED`."""
    contents = [form(F.col(ROW)[name], kind).alias(each) for each, (name, kind) in zip(_forms(types), types.items(), strict=True)]
    # Only the net change of a version can miss a row.
    of_version = rows.groupBy(*contents, VERSION).agg(F.first(ROW).alias(ROW), F.sum(NUMBER).alias(NUMBER))
    in_turn = F.array_sort(F.collect_list(F.struct(VERSION, NUMBER)))
    zero = F.lit(0).cast("bigint")

    def step(sums: Column, each: Column) -> Column:
        total = sums["total"] + each[NUMBER]
        return F.struct(total.alias("total"), F.greatest(sums["needed"], -total).alias("needed"))

    sums = F.aggregate(in_turn, F.struct(zero.alias("total"), zero.alias("needed")), step)
    net = of_version.groupBy(*_forms(types)).agg(F.first(ROW).alias(ROW), sums.alias("__sums"))
    return net.select(*_forms(types), ROW, F.col("__sums.total").alias(NUMBER), F.col("__sums.needed").alias(NEEDED))


def found(rows: DataFrame, net: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
    """Return the positions of the subscriber's rows that are equal to a content which needs copies."""
    mine = [form(F.col(qualified((name,))), kind).alias(f"__mine{n}") for n, (name, kind) in enumerate(types.items())]
    same = _same([f"__mine{n}" for n in range(len(types))], _forms(types))
    equal = Window.partitionBy(*_forms(types))
    met = rows.select(*POSITION, *mine).join(net.where(F.col(NEEDED) > 0).drop(ROW), same)
    return met.select(
        *_forms(types),
        NUMBER,
        NEEDED,
        *POSITION,
        F.row_number().over(equal.orderBy(*POSITION)).alias(_NTH),
        F.count("*").over(equal).alias(COPIES),
    )


def going(met: DataFrame) -> DataFrame:
    """Return the positions of the rows that go, of those that `found` returns."""
    return met.where(F.col(_NTH) <= -(F.col(NUMBER) + _missing())).select(*POSITION)


def settled(net: DataFrame, met: DataFrame, types: Mapping[str, DataType]) -> DataFrame:
    """Return `net` with the NUMBER that the subscriber's rows change by, and the number of `MISSING` rows."""
    there = [F.col(each).alias(f"{each}_there") for each in _forms(types)]
    copies = met.where(F.col(_NTH) == 1).select(*there, COPIES)
    same = _same(_forms(types), [f"{each}_there" for each in _forms(types)])
    both = net.join(copies, same, "left").withColumn(COPIES, F.coalesce(COPIES, F.lit(0)))
    return both.select(ROW, (F.col(NUMBER) + _missing()).alias(NUMBER), _missing().alias(MISSING))


def _missing() -> Column:
    return F.greatest(F.col(NEEDED) - F.col(COPIES), F.lit(0))


def _forms(types: Mapping[str, DataType]) -> list[str]:
    return [f"__form{n}" for n in range(len(types))]


def _same(some: list[str], others: list[str]) -> Column:
    return reduce(Column.__and__, (F.col(one).eqNullSafe(F.col(other)) for one, other in zip(some, others, strict=True)))
