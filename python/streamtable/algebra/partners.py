"""Semi and anti joins ask whether a partner exists, so the distinct keys of the right side are enough.

    A semijoin B on a = b   =   A semijoin distinct(b of B) on a = b                      and so for anti joins

A row of A stays or goes by the existence of a row of B with equal keys, whatever their number. A DISTINCT stores the number of rows
per key. So a row of B that comes or goes changes nothing, unless it is the first or the last one with its keys.

    SELECT * FROM orders o WHERE NOT EXISTS (SELECT 1 FROM returns r WHERE r.item = o.item)
    SELECT o.* FROM orders o LEFT ANTI JOIN (SELECT DISTINCT item FROM returns) r ON r.item = o.item

Applies where each conjunct compares both sides for equality or reads one side alone, and equal values of the keys' types are the
same. A right side that is already grouped by these keys stays as it is, and so do the steps of recursions.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from streamtable.algebra.columns import Item, Scalar, itself, reference
from streamtable.algebra.identity import stored_as_key
from streamtable.algebra.operators import Aggregate, Constant, Filter, JoinType, LeftJoin, Operator, Project, Recursion
from streamtable.algebra.optional import OptionalState, Wanted, always, key_columns
from streamtable.algebra.trees import children, reads_clock, with_children

__all__ = ["store_partners"]


def store_partners(operator: Operator, wanted: Wanted = always) -> Operator:
    """Put a DISTINCT of the keys on the right of each semi and anti join to which the rule applies and whose keys are wanted."""
    if isinstance(operator, Recursion):
        return operator
    operator = with_children(operator, tuple(store_partners(child, wanted) for child in children(operator)))
    if isinstance(operator, LeftJoin) and operator.join_type is not JoinType.LEFT_OUTER:
        return _by_distinct_keys(operator, wanted)
    return operator


def _by_distinct_keys(join: LeftJoin, wanted: Wanted) -> LeftJoin:
    left, right = ({c.id for c in side.columns} for side in (join.left, join.right))
    of_left = tuple(each for each in join.conjuncts if each.inputs <= left)
    of_right = tuple(each for each in join.conjuncts if each not in of_left and each.inputs <= right)
    rest = [each for each in join.conjuncts if each not in of_left and each not in of_right]
    pairs = [(each, pair) for each in rest if (pair := each.compares(left, right))]
    if not pairs or len(pairs) < len(rest) or any(each.clock or not each.deterministic for each in join.conjuncts):
        return join
    keys = [key for _, (_, key) in pairs]
    if not all(stored_as_key(key.type) for key in keys) or _grouped(join.right, keys):
        return join
    if not all(key.column or isinstance(each.sql.unnest(), (exp.EQ, exp.NullSafeEQ)) for each, (_, key) in pairs):
        return join
    named = f"keys {', '.join(key.text for key in keys)} of the right side of a {join.join_type.value} join"
    if not wanted(OptionalState(named, key_columns(join.right, keys))):
        return join
    made = [_key(key, f"{min(right)}_key{n}") for n, key in enumerate(keys)]
    items = tuple({item.id: item for item in made}.values())
    rows = Filter(join.right, of_right) if of_right else join.right
    distinct = Aggregate(Project(rows, items), tuple(itself(item.output) for item in items), ())
    compared = (_compared(each, of, item) for (each, (of, _)), item in zip(pairs, made, strict=True))
    return replace(join, right=distinct, conjuncts=(*compared, *of_left))


def _key(key: Scalar, id_: str) -> Item:
    """Return a key of the right side as a column. A key that is a column keeps its id."""
    return Item(key.column or id_, key.text, key)


def _grouped(right: Operator, keys: list[Scalar]) -> bool:
    """Tell whether the right side has few rows already (groups by the keys, constants), or rows that come and go by the clock."""
    while isinstance(right, Project):
        keys = [item.value for key in keys for item in right.items if item.id == key.column]
        right = right.child
    if isinstance(right, Aggregate):
        return {key.id for key in right.keys} <= {key.column for key in keys}
    return isinstance(right, Constant) or reads_clock(right)


def _compared(conjunct: Scalar, of_left: Scalar, key: Item) -> Scalar:
    if key.value.column:
        return conjunct
    of_key = reference(key.output)
    sql = type(conjunct.sql.unnest())(this=of_left.sql.copy(), expression=of_key.sql.copy())
    return replace(conjunct, sql=sql, inputs=of_left.inputs | of_key.inputs, sides=(of_left, of_key))
