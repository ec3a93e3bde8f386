"""The rows for a subscriber: changes consolidated per time, in the form of the output modifier.

Envelopes keep no state between times. At one time, a key may have at most one row that came and one row that went; more rows
violate the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DataType, LongType, StringType, StructField, StructType

from streamtable.algebra.columns import WEIGHT
from streamtable.algebra.identity import comparable, identity
from streamtable.errors import InvalidStatement, near_names
from streamtable.language.subscribe.ast import Debezium, Modifier, OrderItem, Upsert, WithinTimestamp
from streamtable.sql.builder import column, text
from streamtable.subscribing.relation import TIME, ids

__all__ = ["Output"]

_DIFF = "__streamtable_diff"
_STATE = "__streamtable_state"


@dataclass(frozen=True)
class Output:
    """The form of the rows of one subscription to a relation with the columns `relation`, with times of type `time`."""

    relation: StructType
    time: DataType
    modifier: Modifier | None
    progress: bool

    def __post_init__(self) -> None:
        for name, field in zip(ids(self.relation), self.relation, strict=True):
            if _form(name, field.dataType) is None:
                raise InvalidStatement(
                    f"rows with column {field.name} of type {field.dataType.simpleString()} cannot be told apart",
                    hint="subscribe to a query without it, or with to_json of it",
                )
        ours = [field.name for field in self._leading()]
        for field in self.relation:
            if field.name.casefold() in ours:
                message = f"the column {field.name} has the name of one that SUBSCRIBE adds ({', '.join(ours)})"
                raise InvalidStatement(message, hint=f"subscribe to a query that renames it: SELECT {field.name} AS ...")
        self._key, self._order  # noqa: B018  (they raise for columns that do not exist)

    @property
    def schema(self) -> StructType:
        """Return the columns of the rows. Columns of data are NULL in a row of progress."""
        data = [StructField(f.name, f.dataType, f.nullable or self.progress) for f in self._data()]
        return StructType([*self._leading(), *data])

    def _leading(self) -> list[StructField]:
        enveloped = isinstance(self.modifier, Upsert | Debezium)
        change = StructField("state", StringType(), self.progress) if enveloped else StructField("diff", LongType(), self.progress)
        progressed = [StructField("progressed", BooleanType(), nullable=False)] if self.progress else []
        return [StructField("timestamp", self.time, nullable=False), *progressed, change]

    def _data(self) -> Iterator[StructField]:
        fields = list(self.relation)
        if not isinstance(self.modifier, Upsert | Debezium):
            yield from fields
            return
        yield from (fields[n] for n in self._key)
        prefixes = ("before_", "after_") if isinstance(self.modifier, Debezium) else ("",)
        for prefix in prefixes:
            yield from (StructField(prefix + fields[n].name, fields[n].dataType) for n in self._values)

    @property
    def _key(self) -> list[int]:
        return [self._place(name) for name in self.modifier.key] if isinstance(self.modifier, Upsert | Debezium) else []

    @property
    def _values(self) -> list[int]:
        key = self._key
        return [n for n in range(len(self.relation)) if n not in key]

    @property
    def _order(self) -> list[Column]:
        items = self.modifier.order if isinstance(self.modifier, WithinTimestamp) else ()
        return [_ordered(self._ordering(item), item) for item in items]

    def _ordering(self, item: OrderItem) -> str:
        if isinstance(item.column, int):
            names = [_DIFF, *ids(self.relation)]
            if not 1 <= item.column <= len(names):
                raise InvalidStatement(f"ORDER BY {item.column}: there are the columns 1 (diff) to {len(names)}")
            return names[item.column - 1]
        return _DIFF if item.column.casefold() == "diff" else f"c{self._place(item.column)}"

    def _place(self, name: str) -> int:
        names = [field.name for field in self.relation]
        exact = [n for n, each in enumerate(names) if each == name]
        found = exact or [n for n, each in enumerate(names) if each.casefold() == name.casefold()]
        if len(found) != 1:
            what = "is ambiguous" if found else f"does not exist.{near_names(name, names)}"
            raise InvalidStatement(f"the column {name} {what}", hint=f"the columns are {', '.join(names)}")
        return found[0]

    def frame(self, changes: DataFrame, several: bool) -> DataFrame:
        """Return the rows for the changes of one time, or of `several`."""
        enveloped = isinstance(self.modifier, Upsert | Debezium)
        net, order = self._net(changes), self._order
        rows = self._enveloped(net) if enveloped else net.select(TIME, _DIFF, *ids(self.relation))
        if order or several:
            # The hash lets Spark sort the rows of one time in more than one task.
            hashed = F.xxhash64(*self._forms(self._key if enveloped else range(len(self.relation))))
            rows = rows.orderBy(TIME, *order, hashed)
        progressed = [F.lit(False)] if self.progress else []
        first, *others = (F.col(name) for name in rows.columns)
        return rows.select(first, *progressed, *others).toDF(*self.schema.names)

    def _net(self, changes: DataFrame) -> DataFrame:
        """Net equal rows of one time. With a key, rows are first partitioned by it, so `_enveloped` needs no second shuffle."""
        names = {n: self._grouped(n) for n in range(len(self.relation))}
        others = [n for n, name in names.items() if name != f"c{n}"]
        rows = changes.withColumns({names[n]: form for n, form in zip(others, self._forms(others), strict=True)})
        if self._key:
            rows = rows.repartition(*(names[n] for n in self._key))
        values = [F.any_value(f"c{n}").alias(f"c{n}") for n in others]
        return rows.groupBy(TIME, *names.values()).agg(F.sum(WEIGHT.id).alias(_DIFF), *values).where(F.col(_DIFF) != 0)

    def _grouped(self, n: int) -> str:
        """Return the column by which rows are grouped: the column itself, if GROUP BY compares its values for identity."""
        kind = self.relation[n].dataType.simpleString()
        return f"c{n}" if comparable(kind) else f"k{n}"

    def _enveloped(self, net: DataFrame) -> DataFrame:
        """Give each key of each time one row."""
        came, went = F.col(_DIFF) > 0, F.col(_DIFF) < 0
        row = F.struct(F.lit(True), *(f"c{n}" for n in self._values))
        names = {n: self._grouped(n) for n in self._key}
        grouped = net.groupBy(TIME, *names.values()).agg(
            *(F.any_value(f"c{n}").alias(f"c{n}") for n, name in names.items() if name != f"c{n}"),
            F.sum(F.when(came, F.col(_DIFF)).otherwise(0)).alias("came"),
            F.sum(F.when(went, -F.col(_DIFF)).otherwise(0)).alias("went"),
            F.any_value(F.when(came, row), ignoreNulls=True).alias("after"),
            F.any_value(F.when(went, row), ignoreNulls=True).alias("before"),
        )
        inserted = "insert" if isinstance(self.modifier, Debezium) else "upsert"
        once = (F.col("came") <= 1) & (F.col("went") <= 1)
        state = (
            F.when(~once, "key_violation").when(F.col("went") == 0, inserted).when(F.col("came") == 0, "delete").otherwise("upsert")
        )
        sides = ("before", "after") if isinstance(self.modifier, Debezium) else ("after",)
        values = [F.when(once, F.col(side)[f"c{n}"]).alias(f"{side}{n}") for side in sides for n in self._values]
        return grouped.select(TIME, state.alias(_STATE), *(f"c{n}" for n in self._key), *values)

    def progressed(self, session: SparkSession, time: int) -> DataFrame:
        """Return the row of progress: no more rows follow at times before `time`."""
        first, second, *others = self.schema
        values = [F.lit(str(time)).cast(first.dataType), F.lit(True), *(F.lit(None).cast(each.dataType) for each in others)]
        return session.sql("SELECT 1").select(*values).toDF(first.name, second.name, *(each.name for each in others))

    def _forms(self, places: Sequence[int]) -> list[Column]:
        fields = list(self.relation)
        return [F.expr(str(_form(f"c{n}", fields[n].dataType))) for n in places]


def _form(name: str, kind: DataType) -> str | None:
    """Spell a column in a form whose equality is identity; None if there is none."""
    form = identity(column(name), kind.simpleString().upper())
    return None if form is None else text(form)


def _ordered(name: str, item: OrderItem) -> Column:
    by = F.col(name)
    match item.descending, item.nulls_first:
        case True, None:
            return by.desc()
        case True, first:
            return by.desc_nulls_first() if first else by.desc_nulls_last()
        case False, None:
            return by.asc()
        case _, first:
            return by.asc_nulls_first() if first else by.asc_nulls_last()
