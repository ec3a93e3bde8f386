"""Bounds: the least and greatest of the touched keys as literals, by which a scan leaves out what cannot have them.

    A semijoin K = (A where key between least(K) and most(K), or key is NULL) semijoin K

holds because what the semi join keeps has a key of K, and NULL equals NULL there. A join tells Parquet's reader nothing before it
runs; a literal has it skip row groups and pages. Keys that lie together (today's orders) are the usual change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from streamtable.algebra.columns import Scalar
from streamtable.algebra.operators import Filter, Operator, Project, SemiJoin, Stored
from streamtable.algebra.trees import children, with_children
from streamtable.sql.builder import any_of, cast, column, string

__all__ = ["Extents", "bounded"]

Extents = Mapping[str, Mapping[str, tuple[str, str]]]
"""By the name of a stored relation and of its column: the least and greatest value, as text."""


def bounded(tree: Operator, extents: Extents) -> Operator:
    """Bound the inputs of semi joins whose keys are known; the rows stay the same."""
    tree = with_children(tree, tuple(bounded(child, extents) for child in children(tree)))
    match tree:
        case SemiJoin(child, Project(Stored(name), items), keys) if name in extents:
            known = {item.id: (extents[name].get(item.value.column or ""), item.value.type) for item in items}
            conjuncts = tuple(_within(key, kind, *pair) for key in keys for pair, kind in [known[key]] if pair)
            return replace(tree, child=Filter(child, conjuncts)) if conjuncts else tree
    return tree


def _within(key: str, kind: str, least: str, most: str) -> Scalar:
    between = exp.Between(this=column(key), low=cast(string(least), kind), high=cast(string(most), kind))
    absent = exp.Is(this=column(key), expression=exp.null())
    return Scalar(any_of([between, absent]), "BOOLEAN", True, f"{key} within its bounds", frozenset({key}))
