"""The operators, as frozen dataclasses.

A tree describes a bag of rows. A tree with the column `WEIGHT` describes a delta: a Z-set whose rows carry weight +1 or -1, a
row of multiplicity n being n rows. Columns are known by an id (`c12`) that is unique where it is visible; names matter only at
the sources and at the root.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from sqlglot import exp

__all__ = [
    "WEIGHT",
    "Aggregate",
    "Call",
    "Column",
    "Constant",
    "Filter",
    "Form",
    "Generate",
    "Item",
    "Join",
    "Operator",
    "Project",
    "Scalar",
    "Scan",
    "SemiJoin",
    "Source",
    "Stored",
    "UnionAll",
    "Unsupported",
    "children",
    "walk",
    "with_children",
]


@dataclass(frozen=True)
class Column:
    """A column of an operator; `type` is Spark's SQL spelling."""

    id: str
    name: str
    type: str
    nullable: bool = True


WEIGHT = Column("__streamtable_weight", "__streamtable_weight", "BIGINT", nullable=False)


@dataclass(frozen=True)
class Scalar:
    """A scalar expression over columns; `text` is its spelling for people, `sql` the one for Spark."""

    sql: exp.Expr
    type: str
    nullable: bool
    text: str
    inputs: frozenset[str]
    deterministic: bool = True
    clock: bool = False
    subqueries: tuple[str, ...] = ()

    @property
    def column(self) -> str | None:
        """Return the id of the column that this is, or None when it is more than a column."""
        return self.sql.name if isinstance(self.sql, exp.Column) else None


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
    """An aggregate call: `value` is the call itself, `finish` its value computed from the columns `state` of its partial state."""

    id: str
    value: Scalar
    function: str
    arguments: tuple[Scalar, ...] = ()
    distinct: bool = False
    filter: Scalar | None = None
    finish: exp.Expr | None = None
    state: tuple[Column, ...] = ()

    @property
    def output(self) -> Column:
        return Column(self.id, self.value.text, self.value.type, self.value.nullable)


class Form(Enum):
    """Which state of a source is read: at the target versions, at the frontier, or the change between the two."""

    NEW = "new"
    OLD = "old"
    DELTA = "delta"


@dataclass(frozen=True)
class Source:
    """A Delta table that a query reads; `name` is the catalog's, None for a table named by its path."""

    path: str
    name: str | None

    def __str__(self) -> str:
        return self.name or f"delta.`{self.path}`"


@dataclass(frozen=True)
class Scan:
    source: Source
    columns: tuple[Column, ...]
    form: Form = Form.NEW


@dataclass(frozen=True)
class Stored:
    """Rows that the running refresh keeps under a name; the columns are stored under their ids."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Constant:
    """VALUES, range and the like: a leaf that never changes."""

    leaf: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Filter:
    child: Operator
    conjuncts: tuple[Scalar, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Project:
    child: Operator
    items: tuple[Item, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(item.output for item in self.items)


@dataclass(frozen=True)
class Join:
    """The inner join of any number of inputs; without conjuncts, their product."""

    inputs: tuple[Operator, ...]
    conjuncts: tuple[Scalar, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for child in self.inputs for column in child.columns)


@dataclass(frozen=True)
class SemiJoin:
    """The rows of `child` whose `keys` occur in `touched`, NULL being equal to NULL; `touched` has the same ids as columns."""

    child: Operator
    touched: Operator
    keys: tuple[str, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@dataclass(frozen=True)
class UnionAll:
    inputs: tuple[Operator, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Aggregate:
    """GROUP BY `keys`; SELECT DISTINCT is the case without calls, a global aggregate the one without keys."""

    child: Operator
    keys: tuple[Item, ...]
    calls: tuple[Call, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*(key.output for key in self.keys), *(call.output for call in self.calls))


@dataclass(frozen=True)
class Generate:
    """Each row once per row that `generator` makes of it (explode, LATERAL VIEW); with `outer`, at least once."""

    child: Operator
    generator: Scalar
    outer: bool
    generated: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *self.generated)


@dataclass(frozen=True)
class Unsupported:
    """An operator that has no delta rule (yet); it can only be recomputed."""

    name: str
    inputs: tuple[Operator, ...]
    columns: tuple[Column, ...]
    reason: str


Operator: TypeAlias = Scan | Stored | Constant | Filter | Project | Join | SemiJoin | UnionAll | Aggregate | Generate | Unsupported


def children(operator: Operator) -> tuple[Operator, ...]:
    """Return the inputs of `operator`, left to right."""
    match operator:
        case Scan() | Stored() | Constant():
            return ()
        case Join() | UnionAll() | Unsupported():
            return operator.inputs
        case SemiJoin():
            return (operator.child, operator.touched)
        case _:
            return (operator.child,)


def with_children(operator: Operator, inputs: tuple[Operator, ...]) -> Operator:
    """Return `operator` over other inputs."""
    match operator:
        case Scan() | Stored() | Constant():
            return operator
        case Join() | UnionAll() | Unsupported():
            return replace(operator, inputs=inputs)
        case SemiJoin():
            return replace(operator, child=inputs[0], touched=inputs[1])
        case _:
            return replace(operator, child=inputs[0])


def walk(operator: Operator) -> Iterator[Operator]:
    """Yield `operator` and everything below it, parents first."""
    yield operator
    for child in children(operator):
        yield from walk(child)
