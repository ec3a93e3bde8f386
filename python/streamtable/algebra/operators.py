"""The operators, as frozen dataclasses.

A tree describes a bag of rows. A tree with the column `WEIGHT` describes a delta: a Z-set whose rows have the weight +1 or -1; a
row of multiplicity n is n rows. A column is known by its id (`c12`), which is unique where it is visible. Names matter only at the
sources and at the root.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from streamtable.algebra.columns import WEIGHT, Call, Column, Item, Order, Scalar
from streamtable.algebra.sources import Snapshot, Source

__all__ = [
    "WEIGHT",
    "Aggregate",
    "Call",
    "Column",
    "Constant",
    "Expand",
    "Filter",
    "Generate",
    "Item",
    "Join",
    "JoinType",
    "LeftJoin",
    "Operator",
    "Order",
    "Project",
    "Recursion",
    "Scalar",
    "Scan",
    "SemiJoin",
    "Snapshot",
    "Source",
    "StoredRows",
    "TopK",
    "UnionAll",
    "Unsupported",
    "Window",
    "WorkingTable",
]


@dataclass(frozen=True)
class Scan:
    source: Source
    columns: tuple[Column, ...]
    snapshot: Snapshot = Snapshot.TARGET


@dataclass(frozen=True)
class StoredRows:
    """Rows that the running refresh keeps under a name; the columns are stored under their ids."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Constant:
    """VALUES, range and the like: a leaf that never changes."""

    leaf: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Recursion:
    """WITH RECURSIVE: the rows of `anchor`, then the rows that `step` makes of the level before, until a level is empty.

    `most` is the query's own limit of levels; None means the session's limit.
    """

    loop: Source
    anchor: Operator
    step: Operator
    columns: tuple[Column, ...]
    most: int | None = None


@dataclass(frozen=True)
class WorkingTable:
    """In the step of the recursion `loop`: the rows of the level before."""

    loop: Source
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Filter:
    """The rows for which all `conjuncts` are true. Conjuncts that read the clock read its state `at`."""

    child: Operator
    conjuncts: tuple[Scalar, ...]
    at: Snapshot = Snapshot.TARGET

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Project:
    """The values of `items` for each row. Items that read the clock read its state `at`."""

    child: Operator
    items: tuple[Item, ...]
    at: Snapshot = Snapshot.TARGET

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


class JoinType(Enum):
    """The type of a LeftJoin, as SQL calls it."""

    LEFT_OUTER = "left outer"
    LEFT_SEMI = "left semi"
    LEFT_ANTI = "left anti"


@dataclass(frozen=True)
class LeftJoin:
    """LEFT OUTER, SEMI and ANTI join; RIGHT, FULL and existence joins are made of these. All are linear in `left`."""

    left: Operator
    right: Operator
    join_type: JoinType
    conjuncts: tuple[Scalar, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.join_type is not JoinType.LEFT_OUTER:
            return self.left.columns
        return (*self.left.columns, *(replace(c, nullable=True) for c in self.right.columns))


@dataclass(frozen=True)
class SemiJoin:
    """The rows of `child` whose `keys` occur in `affected`, where NULL equals NULL. The keys have the same ids in both."""

    child: Operator
    affected: Operator
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
    """Each row once per row that `generator` makes of it (explode, LATERAL VIEW). `outer` keeps a row without any."""

    child: Operator
    generator: Scalar
    outer: bool
    generated: tuple[Column, ...]

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *self.generated)


@dataclass(frozen=True)
class Expand:
    """Each row once per projection (GROUPING SETS, CUBE, ROLLUP, UNPIVOT)."""

    child: Operator
    projections: tuple[tuple[Scalar, ...], ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Window:
    """Window functions over the same partitions, in the same `order`; without `partition`, over all rows.

    `running` has a call for each function whose frame is all rows up to the current one, under the id of the function's item. Cut
    the order at any place: the value of the call over the rows before it and the function's value over the other rows together
    give the function's value over all rows.
    """

    child: Operator
    partition: tuple[Scalar, ...]
    items: tuple[Item, ...]
    order: tuple[Order, ...] = ()
    running: tuple[Call, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.child.columns, *(item.output for item in self.items))


@dataclass(frozen=True)
class TopK:
    """ORDER BY ... LIMIT count OFFSET offset. The order leaves no ties open. Without a count, all rows after the offset."""

    child: Operator
    order: tuple[Order, ...]
    count: int | None
    offset: int

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.child.columns


@dataclass(frozen=True)
class Unsupported:
    """An operator without a delta rule, for the `reason`. Only a full refresh can maintain it. `open`: nothing decides its rows."""

    name: str
    inputs: tuple[Operator, ...]
    columns: tuple[Column, ...]
    reason: str
    open: bool = False


Operator: TypeAlias = (
    Scan
    | StoredRows
    | Constant
    | Recursion
    | WorkingTable
    | Filter
    | Project
    | Join
    | LeftJoin
    | SemiJoin
    | UnionAll
    | Aggregate
    | Generate
    | Expand
    | Window
    | TopK
    | Unsupported
)
