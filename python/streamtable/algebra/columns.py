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

    `clock` says that `NOW` is in `sql`; the operator says which instant that is. `sides` are the two that an equality
    compares; `open` says that the value depends on which of equal rows comes first, which nothing decides; `fails` that it is an
    error on some values, as a division by zero is.
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
    fails: bool = False

    @property
    def column(self) -> str | None:
        """Return the id of the column that this is, or None when it is more than a column."""
        return self.sql.name if isinstance(self.sql, exp.Column) else None

    def compares(self, left: set[str], right: set[str]) -> tuple[Scalar, Scalar] | None:
        """Return what an equality compares: an expression of the columns `left` and one of `right`; None for anything else."""
        for a, b in (self.sides, self.sides[::-1]) if self.sides else ():
            if a.inputs and b.inputs and a.inputs <= left and b.inputs <= right:
                return a, b
        return None


@dataclass(frozen=True)
class Item:
    """An expression under the id and name that it has from here on."""

    id: str
    name: str
    value: Scalar

    @property
    def output(self) -> Column:
        return Column(self.id, self.name, self.value.type, self.value.nullable)


@dataclass(frozen=True)
class Call:
    """An aggregate call: `value` is the call itself, `finish` its value computed from the columns `state` of its partial state.

    `null_on_overflow` says that a sum that overflows is NULL, as that of decimals is without ANSI, and not an error.
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
