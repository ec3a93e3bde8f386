"""The differentiation of one tree: which sources changed, and what the rules may ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import ModuleType

from streamtable.algebra.operators import (
    WEIGHT,
    Aggregate,
    Column,
    Form,
    Item,
    Operator,
    Project,
    Scalar,
    Scan,
    Source,
    Stored,
    UnionAll,
    children,
    walk,
    with_children,
)
from streamtable.sql.builder import column, number

__all__ = ["Deltas", "itself", "one", "weighted"]


def itself(c: Column) -> Item:
    """Pass a column on as it is."""
    return Item(c.id, c.name, Scalar(column(c.id), c.type, c.nullable, c.name, frozenset({c.id})))


def one() -> Item:
    """Give a row the weight +1."""
    return Item(WEIGHT.id, WEIGHT.name, Scalar(number(1), WEIGHT.type, False, "1", frozenset()))


def weighted(bag: Operator) -> Operator:
    """Read a bag as the Z-set in which each of its rows weighs +1."""
    return Project(bag, (*(itself(c) for c in bag.columns), one()))


@dataclass
class Deltas:
    """Differentiates one tree for one set of changed sources.

    `arrangements` names the arrangement of each aggregate of the tree; its output at the frontier is stored as
    `<name>_old`. `steps` collects the aggregates whose input changes, inputs before those that read them.
    """

    changed: frozenset[Source]
    arrangements: Mapping[Aggregate, str]
    rules: Mapping[type, ModuleType]
    steps: list[tuple[Aggregate, Operator]] = field(default_factory=list)
    _done: dict[Operator, Operator | None] = field(default_factory=dict)

    def of(self, operator: Operator) -> Operator | None:
        """Return the delta of `operator`, a tree with the column `WEIGHT`, or None when nothing below it changed."""
        if not self.touched(operator):
            return None
        if operator not in self._done:
            rule: Callable[[Operator, Deltas], Operator | None] = self.rules[type(operator)].delta
            self._done[operator] = rule(operator, self)
        return self._done[operator]

    def touched(self, operator: Operator) -> bool:
        """Tell whether a source below `operator` changed."""
        return any(isinstance(node, Scan) and node.source in self.changed for node in walk(operator))

    def old(self, operator: Operator) -> Operator:
        """Return `operator` at the frontier, as a bag; an aggregate is read from its arrangement."""
        if isinstance(operator, Aggregate) and operator in self.arrangements:
            return Stored(f"{self.arrangements[operator]}_old", operator.columns)
        if isinstance(operator, Scan) and operator.source in self.changed:
            return replace(operator, form=Form.OLD)
        return with_children(operator, tuple(self.old(child) for child in children(operator)))

    def new(self, operator: Operator) -> Operator:
        """Return `operator` at the target versions, as a bag or a Z-set: new = old + delta where an aggregate is below it.

        The integral of an aggregate is in its arrangement; to evaluate it anew would read its whole input.
        """
        if not any(isinstance(node, Aggregate) for node in walk(operator)):
            return operator
        delta = self.of(operator)
        if delta is None:
            return self.old(operator)
        return UnionAll((weighted(self.old(operator)), delta), (*operator.columns, WEIGHT))
