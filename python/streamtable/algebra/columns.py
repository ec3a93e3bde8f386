"""Columns, and the expressions over them that operators hold."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from streamtable.sql.builder import column

__all__ = ["NOW", "POSITION", "WEIGHT", "Call", "Column", "Item", "Order", "Scalar", "itself", "reference"]


@dataclass(frozen=True)
class Column:
    """A column of an operator; `type` is Spark's SQL spelling."""

    id: str
    name: str
    type: str
    nullable: bool = True


WEIGHT = Column("__streamtable_weight", "__streamtable_weight", "BIGINT", nullable=False)

NOW = Column("__streamtable_now", "__streamtable_now", "TIMESTAMP", nullable=False)
"""Stands for the instant in an expression that reads the clock. No operator has it as a column."""

POSITION = ("__streamtable_file", "__streamtable_row")
"""Names the place of a stored row: the path of its file, and its index in the file."""


@dataclass(frozen=True)
class Scalar:
    """A scalar expression over columns; `text` is its spelling for people, `sql` the one for Spark.

    `clock`: `sql` contains `NOW`, and the operator decides which instant that is. `sides`: the two expressions that an equality
    compares. `open`: the value depends on the order of equal rows, which nothing decides. `fails`: some values are an error, such
    as a division by zero. `rounds`: floating numbers are added up in an order that nothing decides. `ranks`: a window function that
    numbers rows by those before them, which are row_number, rank and dense_rank. `bounded`: a condition that keeps the numbers of
    its one column from 1 up to some number. `tells`: columns of whose equal values it may give different ones. `unshown`:
    what tells it apart from others with the same `text`, such as the patterns of LIKE ANY.
    """

    sql: exp.Expr
    type: str
    nullable: bool
    text: str
    inputs: frozenset[str]
    deterministic: bool = True
    clock: bool = False
    subqueries: tuple[str, ...] = ()
    sides: tuple[Scalar, Scalar] | None = None
    open: bool = False
    rounds: bool = False
    fails: bool = False
    ranks: bool = False
    bounded: bool = False
    tells: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()

    @property
    def meaning(self) -> tuple[object, ...]:
        """Identify what is computed of a row. The text alone does not: two tables may have columns of one name."""
        return (self.text, self.inputs, self.unshown)

    @property
    def column(self) -> str | None:
        """Return the id of the column, or None when the expression is more than a column."""
        return self.sql.name if isinstance(self.sql, exp.Column) else None

    def compares(self, left: set[str], right: set[str]) -> tuple[Scalar, Scalar] | None:
        """Return the two sides of an equality of the columns `left` and `right`, in this order; None for anything else."""
        for a, b in (self.sides, self.sides[::-1]) if self.sides else ():
            if a.inputs and b.inputs and a.inputs <= left and b.inputs <= right:
                return a, b
        return None


@dataclass(frozen=True)
class Item:
    """An expression with the id and the name of its result."""

    id: str
    name: str
    value: Scalar

    @property
    def output(self) -> Column:
        return Column(self.id, self.name, self.value.type, self.value.nullable)


@dataclass(frozen=True)
class Call:
    """An aggregate call. `value` is the call itself; `finish` computes its value from `state`, the columns of its partial state.

    `null_on_overflow`: a sum that overflows is NULL, not an error. Sums of decimals without ANSI are such sums.
    `other_mode`: the call is of a view whose sums overflow in another way than those of the query. `uncounted`: no count of the
    values is stored beside a sum. `any_order`: what reads its list gives one value for all orders of it.
    """

    id: str
    value: Scalar
    function: str
    arguments: tuple[Scalar, ...] = ()
    distinct: bool = False
    filter: Scalar | None = None
    finish: exp.Expr | None = None
    state: tuple[Column, ...] = ()
    null_on_overflow: bool = False
    other_mode: bool = False
    uncounted: bool = False
    any_order: bool = False

    @property
    def output(self) -> Column:
        return Column(self.id, self.value.text, self.value.type, self.value.nullable)


@dataclass(frozen=True)
class Order:
    value: Scalar
    ascending: bool
    nulls_first: bool


def reference(of: Column) -> Scalar:
    """Return the expression that is just this column."""
    return Scalar(column(of.id), of.type, of.nullable, of.name, frozenset({of.id}))


def itself(of: Column) -> Item:
    """Pass a column on as it is."""
    return Item(of.id, of.name, reference(of))
