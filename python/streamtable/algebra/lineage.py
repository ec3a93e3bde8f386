"""From which columns of the sources each column of a query is computed. Conditions, groups and orders are not asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from streamtable.algebra.columns import Scalar
from streamtable.algebra.operators import (
    Aggregate,
    Constant,
    Expand,
    Filter,
    Generate,
    Join,
    LeftJoin,
    Operator,
    Project,
    Recursion,
    Scan,
    SemiJoin,
    StoredRows,
    TopK,
    UnionAll,
    Unsupported,
    Window,
    WorkingTable,
)
from streamtable.algebra.sources import Source

__all__ = ["Origins", "origins"]

Origins: TypeAlias = frozenset[tuple[Source, str]]
"""Columns of sources, by name."""

_Found: TypeAlias = Mapping[str, Origins]
_NONE: Origins = frozenset()


def origins(tree: Operator) -> tuple[Origins, ...]:
    """Return the origins of each column of the tree, in order."""
    found = _of(tree, {})
    return tuple(found[column.id] for column in tree.columns)


def _of(operator: Operator, loops: Mapping[Source, Sequence[Origins]]) -> _Found:
    """Return the origins of the columns by id; `loops` has those of the working tables of recursions, by position."""
    match operator:
        case Scan(source, columns):
            return {column.id: frozenset({(source, column.name)}) for column in columns}
        case StoredRows(_, columns) | Constant(_, columns):
            return {column.id: _NONE for column in columns}
        case Filter(child) | TopK(child) | SemiJoin(child):
            return _of(child, loops)
        case Project(child, items):
            return _computed(_of(child, loops), ((item.id, (item.value,)) for item in items))
        case Join(inputs):
            return {id_: found for each in inputs for id_, found in _of(each, loops).items()}
        case LeftJoin(left, right):
            return {**_of(right, loops), **_of(left, loops)}
        case UnionAll(inputs, columns):
            return _by_position([column.id for column in columns], [_in_order(each, loops) for each in inputs])
        case Aggregate(child, keys, calls):
            values: list[tuple[str, Sequence[Scalar]]] = [(key.id, (key.value,)) for key in keys]
            values += [(call.id, (call.value, *call.arguments)) for call in calls]
            return _computed(_of(child, loops), values)
        case Generate(child, generator, _, generated):
            below = _of(child, loops)
            return {**below, **_computed(below, ((column.id, (generator,)) for column in generated))}
        case Expand(child, projections, columns):
            rows = zip(columns, zip(*projections, strict=True), strict=True)
            return _computed(_of(child, loops), ((column.id, row) for column, row in rows))
        case Window(child, _, items):
            below = _of(child, loops)
            return {**below, **_computed(below, ((item.id, (item.value,)) for item in items))}
        case Recursion(loop, anchor, step, columns):
            return dict(zip((column.id for column in columns), _closed(loop, anchor, step, loops), strict=True))
        case WorkingTable(loop, columns):
            return dict(zip((column.id for column in columns), loops[loop], strict=True))
        case Unsupported(_, inputs, columns):
            below = {id_: found for each in inputs for id_, found in _of(each, loops).items()}
            every = _union(below.values())
            return {column.id: below.get(column.id, every) for column in columns}


def _computed(below: _Found, values: Iterable[tuple[str, Sequence[Scalar]]]) -> _Found:
    return {id_: _union(below.get(each, _NONE) for value in scalars for each in value.inputs) for id_, scalars in values}


def _in_order(operator: Operator, loops: Mapping[Source, Sequence[Origins]]) -> Sequence[Origins]:
    found = _of(operator, loops)
    return [found[column.id] for column in operator.columns]


def _by_position(ids: Sequence[str], inputs: Sequence[Sequence[Origins]]) -> _Found:
    return {id_: _union(each[n] for each in inputs) for n, id_ in enumerate(ids)}


def _closed(loop: Source, anchor: Operator, step: Operator, loops: Mapping[Source, Sequence[Origins]]) -> Sequence[Origins]:
    """Return the origins of a recursion's columns: those of the anchor, and what the step adds until it adds nothing."""
    known = _in_order(anchor, loops)
    while True:
        again = _in_order(step, {**loops, loop: known})
        grown = [one | other for one, other in zip(known, again, strict=True)]
        if grown == known:
            return known
        known = grown


def _union(found: Iterable[Origins]) -> Origins:
    return frozenset().union(*found)
