"""Conditions on keys whose equal values are not the same: the two zeros of floats, spellings under a collation.

A group has one value for its equal keys. Spark moves conditions below an aggregate or a window, where each row has a value of its
own, and drops a DISTINCT below another one. Where an expression tells equal values apart, both change the answer:

    SELECT x, count(*) FROM t GROUP BY x HAVING CAST(x AS STRING) = '0.0'

counts the rows with 0.0 alone, not those of the group. The states of the group count both zeros, so such a query has no delta.
The shim says which expressions do (`Telling.scala`): comparisons see equal values as equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamtable.algebra.columns import Scalar
from streamtable.algebra.identity import comparable
from streamtable.algebra.operators import Aggregate, Filter, Join, LeftJoin, Operator, Project, UnionAll, Window
from streamtable.algebra.trees import children

__all__ = ["told_apart_above"]

_COUNTING = ("Count", "Sum", "Average")
"""Functions for which a row that comes twice counts twice."""


def told_apart_above(tree: Operator) -> Iterator[tuple[Operator, Scalar]]:
    """Yield the operators above a group or a partition that may tell equal keys apart, and the expression."""
    found: list[tuple[Operator, Scalar]] = []
    _loose(tree, found)
    yield from found


def _loose(operator: Operator, found: list[tuple[Operator, Scalar]]) -> Mapping[str, bool]:
    """Return the columns made of such keys, with whether their own expression tells equal keys apart; add to `found`."""
    below: dict[str, bool] = {}
    inputs = [_loose(child, found) for child in children(operator)]
    for each in inputs:
        below |= each
    found += [(operator, scalar) for scalar in _deciding(operator) if _tells(scalar, below)]
    match operator:
        case Project(_, items):
            return {item.id: _tells(item.value, below) for item in items if item.value.inputs & below.keys()}
        case Aggregate(_, keys):
            return {
                key.id: _tells(key.value, below)
                for key in keys
                if not comparable(key.value.type) or key.value.inputs & below.keys()
            }
        case Window(_, partition):
            return {key.column: False for key in partition if key.column and not comparable(key.type)} | below
        case UnionAll(_, columns):
            arms = [[each.get(c.id) for c in child.columns] for child, each in zip(children(operator), inputs, strict=True)]
            return {c.id: any(at) for c, at in zip(columns, zip(*arms, strict=True), strict=True) if set(at) != {None}}
    return below


def _deciding(operator: Operator) -> tuple[Scalar, ...]:
    """Return the expressions that Spark may evaluate below."""
    match operator:
        case Filter(_, conjuncts) | Join(_, conjuncts) | LeftJoin(_, _, _, conjuncts):
            return conjuncts
        case Aggregate(_, _, calls) if any(each.function in _COUNTING and not each.distinct for each in calls):
            return ()  # what is below it counts, so that Spark drops nothing
        case Aggregate(_, keys, calls):
            of_calls = (each for call in calls for each in (*call.arguments, *((call.filter,) if call.filter else ())))
            return (*(key.value for key in keys), *of_calls)
    return ()


def _tells(scalar: Scalar, below: Mapping[str, bool]) -> bool:
    return any(below.get(name) for name in scalar.inputs) or not below.keys().isdisjoint(scalar.tells)
