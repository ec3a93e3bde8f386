"""Sums of floating numbers in windows, whose last bits differ from one evaluation to the next.

The peers of a RANGE frame are added up in the order in which Spark meets them. The delta of a window evaluates the rows before the
change once more, so that a retraction may differ in the last bits from the row that was inserted.

- At the root of a query the difference is found: a row to remove is not in the table, which is then made anew.
- Where the stream table stands for the rows before (`stored_before`), nothing is evaluated once more.
- Anywhere else the difference would stay: a filter lets one of the two rows pass, a group or a partner loses the wrong one. There
  such a value may be handed on, and no operator may look at it.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamtable.algebra.columns import Scalar
from streamtable.algebra.operators import (
    Aggregate,
    Expand,
    Filter,
    Generate,
    Join,
    LeftJoin,
    Operator,
    Project,
    TopK,
    UnionAll,
    Window,
)
from streamtable.algebra.trees import children
from streamtable.differentiate.stored_before import stands_for_before

__all__ = ["looked_at"]


def looked_at(tree: Operator, stored: bool) -> Iterator[tuple[Operator, Scalar]]:
    """Yield the operators that look at such a value, and the expression. `stored`: the stream table stands for the rows before."""
    found: list[tuple[Operator, Scalar]] = []
    _rounded(tree, {id(each) for each in stands_for_before(tree)} if stored else set(), found)
    yield from found


def _rounded(operator: Operator, safe: set[int], found: list[tuple[Operator, Scalar]]) -> frozenset[str]:
    """Return the columns of `operator` with such values, and add to `found`."""
    below = [_rounded(child, safe, found) for child in children(operator)]
    rounded = frozenset[str]().union(*below)
    found += [(operator, scalar) for scalar in _decisive(operator, id(operator) in safe) if scalar.inputs & rounded]
    match operator:
        case Project(_, items):
            return frozenset(item.id for item in items if item.value.inputs & rounded)
        case Window(_, _, items):
            made = (item.id for item in items if item.value.rounds or item.value.inputs & rounded)
            return rounded.union(made)
        case UnionAll(inputs, columns):
            places = {n for each, of in zip(inputs, below, strict=True) for n, c in enumerate(each.columns) if c.id in of}
            return frozenset(columns[n].id for n in places)
        case Expand(_, projections, columns):
            return frozenset(c.id for n, c in enumerate(columns) if any(each[n].inputs & rounded for each in projections))
        case Aggregate():
            return frozenset()
    return rounded


def _decisive(operator: Operator, safe: bool) -> list[Scalar]:
    """Return the expressions whose values decide which rows there are. Of a `safe` operator these are partitions alone."""
    match operator:
        case Filter(_, conjuncts):
            return [] if safe else list(conjuncts)
        case Join(_, conjuncts) | LeftJoin(_, _, _, conjuncts):
            return list(conjuncts)
        case Aggregate(_, keys, calls):
            if safe:
                return []
            of_calls = [scalar for call in calls for scalar in (*call.arguments, *([call.filter] if call.filter else []))]
            return [*(key.value for key in keys), *of_calls]
        case Window(_, partition, _, order):
            return [*partition, *([] if safe else [each.value for each in order])]
        case TopK(_, order):
            return [] if safe else [each.value for each in order]
        case Generate(_, generator):
            return [generator]
    return []
