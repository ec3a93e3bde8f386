"""Restriction: the rows of a tree that belong to the touched keys, reading as little of the rest as can be.

    restrict(agg's input A, K) = A semijoin K

The semi join is pushed towards the scan that has the key columns: filters, projections and inner joins keep or drop a row (and its
key) without looking at other keys, so restricting below them gives the same rows.
"""

from __future__ import annotations

from dataclasses import replace

from streamtable.algebra.operators import (
    Aggregate,
    Filter,
    Generate,
    Item,
    Join,
    Operator,
    Project,
    SemiJoin,
    Stored,
    UnionAll,
)
from streamtable.differentiate.deltas import itself

__all__ = ["restrict"]


def restrict(aggregate: Aggregate, touched: Stored) -> Operator:
    """Return the input of `aggregate`, restricted to the groups in `touched` (columns: the ids of the keys)."""
    if not aggregate.keys:
        return aggregate.child
    if all(key.value.column is not None for key in aggregate.keys):
        # `pairs`: column of the input -> column of `touched`.
        pairs = {key.value.column or "": key.id for key in aggregate.keys}
        return _push(aggregate.child, touched, pairs)
    named = [Item(f"__key{n}", key.name, key.value) for n, key in enumerate(aggregate.keys)]
    keyed = Project(aggregate.child, (*(itself(c) for c in aggregate.child.columns), *named))
    return _semi(keyed, touched, {item.id: key.id for item, key in zip(named, aggregate.keys, strict=True)})


def _push(operator: Operator, touched: Stored, pairs: dict[str, str]) -> Operator:
    match operator:
        case Filter(child):
            return replace(operator, child=_push(child, touched, pairs))
        case Project(child, items):
            below = {item.id: item.value.column for item in items}
            if all(below[name] is not None for name in pairs) and len({below[name] for name in pairs}) == len(pairs):
                renamed = {str(below[name]): key for name, key in pairs.items()}
                return replace(operator, child=_push(child, touched, renamed))
        case Generate(child) if set(pairs) <= {c.id for c in child.columns}:
            return replace(operator, child=_push(child, touched, pairs))
        case Join(inputs):
            for n, child in enumerate(inputs):
                if set(pairs) <= {c.id for c in child.columns}:
                    return replace(operator, inputs=(*inputs[:n], _push(child, touched, pairs), *inputs[n + 1 :]))
        case UnionAll(inputs, columns):
            at = {c.id: n for n, c in enumerate(columns)}
            pushed = []
            for child in inputs:
                renamed = {child.columns[at[name]].id: key for name, key in pairs.items()}
                pushed.append(_push(child, touched, renamed))
            return replace(operator, inputs=tuple(pushed))
    return _semi(operator, touched, pairs)


def _semi(operator: Operator, touched: Stored, pairs: dict[str, str]) -> Operator:
    """Restrict here; `touched` takes the names that the columns have at this place."""
    of = {c.id: c for c in touched.columns}
    renamed = tuple(Item(name, of[key].name, itself(of[key]).value) for name, key in pairs.items())
    return SemiJoin(operator, Project(touched, renamed), tuple(pairs))
