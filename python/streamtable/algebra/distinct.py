"""DISTINCT over DISTINCT is one: nested UNIONs become one DISTINCT over one UNION ALL.

    distinct(f(distinct(A))) = distinct(f(A))        for f made of projections, filters and UNION ALL

f looks at one row at a time, so rows that are the same below f are the same above it. The outer DISTINCT keeps one of them in both
queries. Values of some types are equal to DISTINCT and not the same: the two zeros, spellings under a collation. A DISTINCT of
such a type stays where f computes or filters, because f may tell them apart.

    SELECT a FROM t UNION SELECT b FROM u UNION SELECT c FROM v
    SELECT DISTINCT * FROM (SELECT a FROM t UNION ALL SELECT b FROM u UNION ALL SELECT c FROM v)
"""

from __future__ import annotations

from dataclasses import replace

from streamtable.algebra.identity import comparable
from streamtable.algebra.operators import Aggregate, Filter, Operator, Project, UnionAll
from streamtable.algebra.trees import children, with_children

__all__ = ["merge_distincts"]


def merge_distincts(operator: Operator) -> Operator:
    """Drop each DISTINCT below another DISTINCT that makes it needless."""
    if isinstance(operator, Aggregate) and not operator.calls and operator.keys:
        operator = replace(operator, child=_with_duplicates(operator.child, False))
    return with_children(operator, tuple(merge_distincts(child) for child in children(operator)))


def _with_duplicates(operator: Operator, computed: bool) -> Operator:
    """Return an operator that gives the same rows, some of them several times.

    `computed`: something above does more than to move columns.
    """
    match operator:
        case Aggregate(child, keys, ()) if keys and (not computed or all(comparable(key.value.type) for key in keys)):
            return _with_duplicates(Project(child, keys), computed)
        case Project(child, items):
            moves = all(item.value.column is not None for item in items)
            return replace(operator, child=_with_duplicates(child, computed or not moves))
        case Filter(child, _):
            return replace(operator, child=_with_duplicates(child, True))
        case UnionAll(inputs, columns):
            return UnionAll(tuple(arm for each in inputs for arm in _arms(_with_duplicates(each, computed))), columns)
    return operator


def _arms(operator: Operator) -> tuple[Operator, ...]:
    """Return the inputs of a UNION ALL, whose columns count by their places, or the operator itself."""
    return operator.inputs if isinstance(operator, UnionAll) else (operator,)
