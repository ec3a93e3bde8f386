"""Restriction: the rows of a tree that have affected keys, with as few other rows read as possible.

    restrict(A, K) = A semijoin K

The semi join is pushed towards the scan that has the key columns. Operators that keep or drop a row by its own columns give the
same rows when their input is restricted. So do aggregates whose keys contain these keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from streamtable.algebra.columns import WEIGHT, Column, Item, Scalar, itself
from streamtable.algebra.identity import told_apart
from streamtable.algebra.operators import (
    Aggregate,
    Filter,
    Generate,
    Join,
    LeftJoin,
    Operator,
    Project,
    SemiJoin,
    StoredRows,
    UnionAll,
    Window,
)
from streamtable.differentiate.deltas import Deltas, without

__all__ = ["around", "equalities", "keyed", "partners", "restrict"]

Pairs = dict[str, str]
"""Column of the restricted tree -> column of `affected`."""


def keyed(tree: Operator, keys: Sequence[Scalar]) -> Operator:
    """Project a tree to its key values, as `restrict` expects them in `affected`."""
    return Project(tree, tuple(Item(f"__key{n}", key.text, key) for n, key in enumerate(keys)))


def restrict(tree: Operator, keys: Sequence[Scalar], affected: Operator) -> Operator:
    """Return the rows of `tree` whose `keys` occur in `affected`. Its columns are in the order of the keys; NULL equals NULL."""
    if not keys:
        return tree
    wanted = [c.id for c in affected.columns if c != WEIGHT]
    names = [key.column for key in keys]
    if None not in names and len(set(names)) == len(names):
        return _push(tree, affected, {str(name): key for name, key in zip(names, wanted, strict=True)})
    made = [Item(f"__made{n}", key.text, key) for n, key in enumerate(keys)]
    widened = Project(tree, (*(itself(c) for c in tree.columns), *made))
    kept = _semi(widened, affected, {item.id: key for item, key in zip(made, wanted, strict=True)})
    return Project(kept, tuple(itself(c) for c in tree.columns))


def equalities(left: Operator, right: Operator, conjuncts: Sequence[Scalar]) -> list[tuple[Scalar, Scalar]]:
    """Return the pairs of expressions, of the left input and of the right, that the conjuncts compare for equality."""
    first, second = ({c.id for c in side.columns} for side in (left, right))
    return [pair for conjunct in conjuncts if (pair := conjunct.compares(first, second))]


def partners(changed: Operator, other: Operator, conjuncts: Sequence[Scalar], deltas: Deltas) -> Operator:
    """Return `other`; for a small change only its rows that can meet a row of `changed`, so that no others are moved."""
    pairs = equalities(changed, other, conjuncts)
    if not pairs or not deltas.small:
        return other
    affected = deltas.shared(keyed(changed, [of_changed for of_changed, _ in pairs]))
    return restrict(other, [of_other for _, of_other in pairs], affected)


def around(
    changed: Operator, of: Operator, keys: Sequence[Scalar], affected: StoredRows, deltas: Deltas
) -> tuple[Operator, Operator]:
    """Return the rows of `of` with affected keys, at the target and at the frontier. `changed` is its delta and has all these keys.

    For a small change only the target is read: A semijoin K = (A' semijoin K) - D(A), because K has all keys of D(A).
    """
    new = restrict(deltas.new(of), keys, affected)
    if not deltas.small or not told_apart(of.columns):
        return new, restrict(deltas.old(of), keys, affected)
    new = deltas.shared(new)
    return new, without(new, changed)


def _push(operator: Operator, affected: Operator, pairs: Pairs) -> Operator:
    match operator:
        case Filter(child) | SemiJoin(child):
            return replace(operator, child=_push(child, affected, pairs))
        case Project(child, items):
            below = {item.id: item.value.column for item in items}
            if all(below[name] is not None for name in pairs) and len({below[name] for name in pairs}) == len(pairs):
                renamed = {str(below[name]): key for name, key in pairs.items()}
                return replace(operator, child=_push(child, affected, renamed))
        case Generate(child) if _has(child, pairs):
            return replace(operator, child=_push(child, affected, pairs))
        case Aggregate(child, keys):
            # The value of a group depends on its own rows only.
            below = {key.id: key.value.column for key in keys}
            if all(below.get(name) is not None for name in pairs) and len({below[name] for name in pairs}) == len(pairs):
                return replace(operator, child=_push(child, affected, {str(below[name]): key for name, key in pairs.items()}))
        case Window(child, partition) if set(pairs) <= {key.column for key in partition}:
            return replace(operator, child=_push(child, affected, pairs))
        case Join(inputs):
            for n, child in enumerate(inputs):
                if _has(child, pairs):
                    return replace(operator, inputs=(*inputs[:n], _push(child, affected, pairs), *inputs[n + 1 :]))
        case LeftJoin(left, right) if _has(left, pairs):
            return replace(operator, left=_push(left, affected, pairs), right=_push_right(operator, right, affected, pairs))
        case UnionAll(inputs, columns):
            at = {c.id: n for n, c in enumerate(columns)}
            pushed = []
            for child in inputs:
                renamed = {child.columns[at[name]].id: key for name, key in pairs.items()}
                distinct = len(renamed) == len(pairs)
                pushed.append(_push(child, affected, renamed) if distinct else _union_arm(child, affected, pairs, at))
            return replace(operator, inputs=tuple(pushed))
    return _semi(operator, affected, pairs)


def _has(operator: Operator, pairs: Pairs) -> bool:
    return set(pairs) <= {c.id for c in operator.columns}


def _push_right(join: LeftJoin, right: Operator, affected: Operator, pairs: Pairs) -> Operator:
    """Restrict the right side too, if the join compares all keys of the left with columns of the right."""
    partner = {a.column: b.column for a, b in equalities(join.left, join.right, join.conjuncts)}
    renamed = {str(partner[name]): key for name, key in pairs.items() if partner.get(name)}
    if len(renamed) == len(pairs):
        return _push(right, affected, renamed)
    return right


def _union_arm(child: Operator, affected: Operator, pairs: Pairs, at: dict[str, int]) -> Operator:
    """Restrict an arm that shows one column twice; each place gets a name of its own."""
    named = Project(child, tuple(Item(f"__arm{n}", c.name, itself(c).value) for n, c in enumerate(child.columns)))
    return _semi(named, affected, {f"__arm{at[name]}": key for name, key in pairs.items()})


def _semi(operator: Operator, affected: Operator, pairs: Pairs) -> Operator:
    """Restrict here; the columns of `affected` get the names of the keys at this place."""
    of: dict[str, Column] = {c.id: c for c in affected.columns}
    renamed = tuple(Item(name, of[key].name, itself(of[key]).value) for name, key in pairs.items())
    return SemiJoin(operator, Project(affected, renamed), tuple(pairs))
