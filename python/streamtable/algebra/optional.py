"""Optional states: a query gives the same rows without them, and reads its sources instead. STATE says which are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from streamtable.algebra.columns import Scalar
from streamtable.algebra.operators import Aggregate, Filter, Generate, Operator, Project, Scan
from streamtable.algebra.sources import Source

__all__ = ["OptionalState", "Origin", "Wanted", "always", "key_columns"]


@dataclass(frozen=True)
class Origin:
    """A column of a table, by the name that the table gives it."""

    source: Source
    column: str


@dataclass(frozen=True)
class OptionalState:
    """An optional state. `text` is its name for people.

    `keys` are the columns by which a refresh without the state finds the rows of a change's keys in one table. There are none where
    the rows come of several tables, or where the keys are computed.
    """

    text: str
    keys: tuple[Origin, ...]


Wanted: TypeAlias = Callable[[OptionalState], bool]


def always(_: OptionalState) -> bool:
    """Store each state."""
    return True


def key_columns(rows: Operator, keys: Iterable[Scalar]) -> tuple[Origin, ...]:
    """Return the origins of those keys, expressions over `rows`, that are columns of a table."""
    found = (_origin(rows, key.column) for key in keys)
    return tuple(each for each in found if each is not None)


def _origin(operator: Operator, id_: str | None) -> Origin | None:
    match operator:
        case Scan(source, columns):
            return next((Origin(source, each.name) for each in columns if each.id == id_), None)
        case Filter(child) | Generate(child):
            return _origin(child, id_)
        case Project(child, items) | Aggregate(child, items):
            return _origin(child, next((item.value.column for item in items if item.id == id_), None))
    return None
