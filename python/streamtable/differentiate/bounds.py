"""Bounds: the least and greatest of the affected keys, as literals by which a scan skips rows without these keys.

    A semijoin K   = (A where key between least(K) and most(K), or key is NULL) semijoin K
    D(A) join B'   = D(A) join (B' where b between least(a) and most(a))            for each equality a = b

    A semijoin K on a >= k = (A where a >= least(k)) semijoin K on a >= k        where a window runs from the cut k on

The first and the third hold because every row of A that is kept has a key of K, where NULL equals NULL. The second holds because a
row of B' outside the bounds, or with NULL, meets no row of D(A); the right side of an outer, semi or anti join is bounded alike.
A join tells Parquet's reader nothing before it runs; by a literal the reader skips row groups and pages. Changed keys mostly lie
together, as today's orders do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from streamtable.algebra.columns import Scalar
from streamtable.algebra.operators import Filter, Join, JoinType, LeftJoin, Operator, Project, Scan, SemiJoin, StoredRows
from streamtable.algebra.sources import Snapshot
from streamtable.algebra.trees import children, with_children
from streamtable.sql.builder import any_of, column, literal

__all__ = ["Extents", "bounded"]

Extents = Callable[[StoredRows | Scan], Mapping[str, tuple[str, str]]]
"""Returns the known least and greatest values, as text by column name, of a stored relation or a change set."""


def bounded(tree: Operator, extents: Extents) -> Operator:
    """Bound one side of joins and semi joins by the known keys of the other side; the result stays the same."""
    tree = with_children(tree, tuple(bounded(child, extents) for child in children(tree)))
    match tree:
        case SemiJoin(child, affected, keys):
            return replace(tree, child=_within(child, [(key, affected, key) for key in keys], extents))
        case Join(inputs, conjuncts):
            pairs = _pairs(conjuncts)
            others = [[(a, other, b) for a, b in pairs for other in inputs if other is not each] for each in inputs]
            return replace(tree, inputs=tuple(_within(each, known, extents) for each, known in zip(inputs, others, strict=True)))
        case LeftJoin(left, right, join_type, conjuncts):
            pairs = _pairs(conjuncts)
            right = _within(right, [(b, left, a) for b, a in pairs], extents)
            if join_type is JoinType.LEFT_SEMI:
                left = _within(left, [(a, tree.right, b) for a, b in pairs], extents)
                left = _beyond(left, tree.right, conjuncts, extents)
            return replace(tree, left=left, right=right)
    return tree


def _pairs(conjuncts: Iterable[Scalar]) -> list[tuple[str, str]]:
    """Return the pairs of columns that the conjuncts compare for equality, in both orders."""
    sides = [(a.column, b.column) for a, b in (each.sides for each in conjuncts if each.sides)]
    return [pair for a, b in sides if a is not None and b is not None for pair in ((a, b), (b, a))]


def _within(bound: Operator, by: Iterable[tuple[str, Operator, str]], extents: Extents) -> Operator:
    """Keep the rows of `bound` whose column is NULL, or within the extent of another operator's column."""
    own = {c.id for c in bound.columns}
    conjuncts = []
    for key, other, of in by:
        if key in own and _extent(bound, key, extents) is None and (found := _extent(other, of, extents)):
            low, high = (literal(each, found.type) for each in (found.least, found.most))
            between = exp.Between(this=column(key), low=low, high=high)
            absent = exp.Is(this=column(key), expression=exp.null())
            conjuncts.append(Scalar(any_of([between, absent]), "BOOLEAN", False, f"{key} within bounds", frozenset({key})))
    return Filter(bound, tuple(conjuncts)) if conjuncts else bound


def _beyond(bound: Operator, by: Operator, conjuncts: Iterable[Scalar], extents: Extents) -> Operator:
    """Keep the rows of `bound` at or behind the foremost cut of `by`, for conjuncts `a >= cut OR ...` of the rule `running`."""
    kept = []
    for conjunct in conjuncts:
        reached, *always = conjunct.sql.flatten() if isinstance(conjunct.sql, exp.Or) else [conjunct.sql]
        if not isinstance(reached, (exp.GTE, exp.LTE)) or not isinstance(reached.this, exp.Column):
            continue
        cut = _extent(by, reached.expression.name, extents)
        possible = [each for each in always if not _never(each, by, extents)]
        if cut and all(isinstance(each, exp.Is) for each in possible):
            foremost = literal(cut.least if isinstance(reached, exp.GTE) else cut.most, cut.type)
            beyond = type(reached)(this=reached.this.copy(), expression=foremost)
            sql = any_of([beyond, *(each.copy() for each in possible)])
            kept.append(Scalar(sql, "BOOLEAN", True, f"{conjunct.text} within bounds", frozenset({reached.this.name})))
    return Filter(bound, tuple(kept)) if kept else bound


def _never(condition: exp.Expr, by: Operator, extents: Extents) -> bool:
    """Tell whether `n > 0` holds for no row of `by`."""
    counted = _extent(by, condition.this.name, extents) if isinstance(condition, exp.GT) else None
    return counted is not None and counted.most == "0"


@dataclass(frozen=True)
class _Extent:
    least: str
    most: str
    type: str


def _extent(operator: Operator, id_: str, extents: Extents) -> _Extent | None:
    """Follow a column down to its leaf, through operators that only drop or repeat rows."""
    match operator:
        case StoredRows(_, columns) | Scan(_, columns, Snapshot.CHANGE):
            of = next((c for c in columns if c.id == id_), None)
            pair = of and extents(operator).get(of.id if isinstance(operator, StoredRows) else of.name)
            return _Extent(*pair, of.type) if of and pair else None
        case Filter(child) | SemiJoin(child):
            return _extent(child, id_, extents)
        case Project(child, items):
            below = next((item.value.column for item in items if item.id == id_), None)
            return _extent(child, below, extents) if below else None
        case Join(inputs):
            return next((found for each in inputs if (found := _extent(each, id_, extents))), None)
        case LeftJoin(left):
            return _extent(left, id_, extents)
    return None
