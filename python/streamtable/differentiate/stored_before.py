"""Delta of a query with windows, left joins or LIMIT, whose stream table holds the rows before the change.

    D(Q) = Q(A' semijoin K) - (T semijoin K)

Q is a chain of projections, filters, windows and aggregates over A, the input of the lowest window. T is the stream table, so
T = Q(A). K = the partitions of the lowest window that occur in D(A). The windows above have its partition columns among theirs, the
aggregates among their keys, and the output shows these columns. Every row of Q(A) comes from rows of its own partition, so
Q(A) semijoin K = Q(A semijoin K), and all other partitions stay as they are. These aggregates need no states.

Where Q keeps the first k rows of each partition and shows all columns of A, T stands for A too, except in few partitions:

    D(Q) = Q(B) - (T semijoin K)
    B    = (T semijoin K - L)  +  (D+ semijoin K - L)  +  (A' semijoin L)

D+ and D- are the rows of the netted D(A) that come and that go. L = the partitions where D- has a row of T, or a row that equals
one of T in the columns that decide its place. A row outside the first k has k rows of T before it. Outside L these stay, so that
row stays behind them. The number by row_number, rank or dense_rank depends on earlier rows only.

Where Q is a chain of projections and filters over a left outer, semi or anti join A op B, and shows the keys of A:

    D(Q) = Q(D(A) op B')  +  Q((A semijoin K) op (B' semijoin K)) - (T semijoin K)

with K = the keys in D(B), as in `left_join`: T semijoin K is the result for these rows of A with B. Where A and B are rows of one
table with keys in the same columns, K has the keys in D(A) too. Then A' takes the place of A, and the first term goes: a row of A'
with another key stays, and so do its partners.

Where Q ends with ORDER BY ... LIMIT, all of it is computed:

    D(Q) = Q(A') - T

Applies to no chain that reads the clock. `running` keeps a chain without filters whose windows run: it reads partitions from the
first change on.

Example, where orders changes:

    SELECT order_id, amount FROM orders ORDER BY amount, order_id LIMIT 3

becomes

    SELECT order_id, amount, 1 AS weight FROM orders_new ORDER BY amount, order_id LIMIT 3
    UNION ALL
    SELECT order_id, amount, -1 AS weight FROM table_before;
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from streamtable.algebra.columns import WEIGHT, Column, Item, Scalar, itself, reference
from streamtable.algebra.identity import comparable, told_apart
from streamtable.algebra.operators import (
    Aggregate,
    Filter,
    JoinType,
    LeftJoin,
    Operator,
    Project,
    SemiJoin,
    StoredRows,
    TopK,
    UnionAll,
    Window,
)
from streamtable.algebra.optional import key_columns
from streamtable.algebra.trees import reads_clock, replaced, sources_of
from streamtable.differentiate import running
from streamtable.differentiate.deltas import Deltas, came_and_went, difference, total
from streamtable.differentiate.left_join import linear
from streamtable.differentiate.restrict import equalities, keyed, restrict

__all__ = ["BEFORE", "delta_of_query", "stands_for_before", "without_states"]

BEFORE = "table_before"
"""Names the rows of the stream table at the frontier. Their columns have the ids of the query's columns."""

_Link: TypeAlias = Project | Filter | Window | Aggregate
_LINKS = (Project, Filter, Window, Aggregate)
"""Operators of a chain."""


def delta_of_query(tree: Operator, deltas: Deltas, judged: Operator | None = None) -> Operator | None:
    """Return the delta of a whole query: by this rule where it applies, else by the rules of the operators.

    `judged` are the rows before expectations drop some. The table does not hold them, so the rules of the operators apply.
    """
    if judged is not None:
        deltas.keep(judged)
        return deltas.of(tree)
    if _ends_with_limit(tree) and deltas.affected(tree):
        return difference(deltas.new(tree), StoredRows(BEFORE, tree.columns))
    if moved := _left_joined(tree, deltas):
        return moved
    chain = _chain(tree)
    if chain is None or not deltas.affected(chain.low.child):
        return deltas.of(tree)
    first = _keeps_first(chain) and not deltas.trusted  # a partition without its first rows takes the next ones
    if deltas.small and chain.may_run:
        return deltas.of(tree)
    low = chain.low
    changed = deltas.of(low.child)
    assert changed is not None, "the input of the window is affected"
    changed = deltas.once(changed)
    affected = deltas.shared(keyed(changed, low.partition))
    stored = restrict(
        StoredRows(BEFORE, tree.columns), [reference(chain.shown[str(key.column)]) for key in low.partition], affected
    )
    if first:
        stored = deltas.shared(stored)
        rows = _first_rows(chain, changed, stored, deltas)
    else:
        rows = restrict(deltas.new(low.child), low.partition, affected)
    return difference(replaced(tree, low, replace(low, child=rows)), stored)


def stands_for_before(tree: Operator) -> tuple[Operator, ...]:
    """Return the operators from the root down for whose rows before a change the stream table stands, whatever changes."""
    if _ends_with_limit(tree):
        return tuple(each for each, _ in _descent(tree))
    chain = _chain(tree)
    return chain.operators if chain and (chain.filters or chain.aggregates) else ()


def without_states(tree: Operator) -> tuple[Aggregate, ...]:
    """Return the aggregates whose groups are computed again with their partitions, whatever changes: no arrangement is read."""
    return tuple(each for each in stands_for_before(tree) if isinstance(each, Aggregate))


def _left_joined(tree: Operator, deltas: Deltas) -> Operator | None:
    """Return the delta where the query ends with a left join whose right side changed, and the table shows the keys of its left."""
    *above, (join, shown) = _descent(tree)
    if not isinstance(join, LeftJoin) or any(isinstance(each, (Window, Aggregate)) for each, _ in above):
        return None
    if (of_right := deltas.of(join.right)) is None:
        return None
    pairs = equalities(join.left, join.right, join.conjuncts)
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    if not pairs or not all(a.column in shown for a in left):
        return None
    keys = keyed(deltas.once(of_right), right)
    if together := _changes_together(join, left, right):
        of_left = deltas.of(join.left)
        keys = keys if of_left is None else UnionAll((keys, keyed(deltas.once(of_left), left)), keys.columns)
    elif deltas.affected(join.left) and any(scalar.fails for each, _ in above for scalar in _scalars(each)):
        return None  # what may fail is evaluated on netted rows: `Deltas.settled`
    affected = deltas.shared(keys)
    kept = restrict(deltas.new(join.left) if together else deltas.old(join.left), left, affected)
    after = replace(join, left=kept, right=restrict(deltas.new(join.right), right, affected))
    before = restrict(StoredRows(BEFORE, tree.columns), [reference(shown[str(a.column)]) for a in left], affected)
    stayed = difference(replaced(tree, join, after), before)
    first = None if together else linear(join, deltas)
    return total(stayed, None if first is None else _lifted(tree, join, first))


def _changes_together(join: LeftJoin, left: Sequence[Scalar], right: Sequence[Scalar]) -> bool:
    """Tell whether both sides read one table and are equal in the same of its columns: most of their changed keys are the same."""
    origins = key_columns(join.left, left)
    same = len(origins) == len(left) and origins == key_columns(join.right, right)
    return same and sources_of(join.left) == sources_of(join.right)


def _lifted(tree: Operator, join: LeftJoin, delta: Operator) -> Operator:
    """Return the delta of the chain `tree` of projections and filters, given that of the join at its end."""
    match tree:
        case Project(child, items):
            return Project(_lifted(child, join, delta), (*items, itself(WEIGHT)))
        case Filter(child):
            return replace(tree, child=_lifted(child, join, delta))
    return delta


def _descent(tree: Operator) -> Iterator[tuple[Operator, dict[str, Column]]]:
    """Yield the operators from the root down, and the columns of each that the output shows, with the output's columns.

    The last one is the first that is no projection, filter, window or aggregate, or that reads the clock.
    """
    shown = {c.id: c for c in tree.columns}
    yield tree, shown
    while isinstance(tree, _LINKS) and not reads_clock(tree):
        if isinstance(tree, (Project, Aggregate)):
            named = [(item.id, item.value.column) for item in (tree.items if isinstance(tree, Project) else tree.keys)]
            shown = {below: shown[id_] for id_, below in named if below is not None and id_ in shown}
        tree = tree.child
        yield tree, shown


def _scalars(operator: Operator) -> Iterable[Scalar]:
    match operator:
        case Filter(conjuncts=conjuncts):
            return conjuncts
        case Project(items=items):
            return [item.value for item in items]
    return ()


def _ends_with_limit(tree: Operator) -> bool:
    *above, (last, _) = _descent(tree)
    return isinstance(last, TopK) and all(isinstance(each, Project) for each, _ in above)


@dataclass(frozen=True)
class _Chain:
    """The operators from the root down to the window `low`; `shown` maps columns below it to the output columns that show them."""

    operators: tuple[_Link, ...]
    shown: Mapping[str, Column]

    @property
    def low(self) -> Window:
        low = self.operators[-1]
        assert isinstance(low, Window)
        return low

    @property
    def filters(self) -> list[Filter]:
        return [each for each in self.operators if isinstance(each, Filter)]

    @property
    def windows(self) -> list[Window]:
        return [each for each in self.operators if isinstance(each, Window)]

    @property
    def aggregates(self) -> list[Aggregate]:
        return [each for each in self.operators if isinstance(each, Aggregate)]

    @property
    def may_run(self) -> bool:
        """Tell whether `running` applies to all windows, and to the chain as a whole the rules of the operators."""
        return not self.filters and not self.aggregates and all(map(running.applies, self.windows))


def _chain(tree: Operator) -> _Chain | None:
    """Return the chain down to the lowest window whose partitions the output shows, and the windows and groups above share."""
    found = None
    operators: list[_Link] = []
    shared: set[str] | None = None  # the columns by which the windows above part the rows
    for node, shown in _descent(tree):
        if not isinstance(node, _LINKS) or reads_clock(node):
            break
        operators.append(node)
        match node:
            case Window(partition=partition):
                keys = {key.column for key in partition}
                if not keys or None in keys or not keys <= (shown.keys() if shared is None else shared):
                    break
                shared = {str(key) for key in keys}
                found = _Chain(tuple(operators), shown)
            case Project(items=items) | Aggregate(keys=items) if shared is not None:
                shared = {item.value.column for item in items if item.value.column is not None and item.id in shared}
    return found


def _keeps_first(chain: _Chain) -> bool:
    """Tell whether the chain keeps the first rows of each partition by one number, and shows all columns of the window's input."""
    low, filters = chain.low, chain.filters
    if len(chain.windows) > 1 or chain.aggregates or len(filters) != 1 or len(filters[0].conjuncts) != 1:
        return False
    if not all(item.value.ranks for item in low.items):
        return False
    if not all(c.id in chain.shown for c in low.child.columns) or not told_apart(low.child.columns):
        return False
    condition = filters[0].conjuncts[0]
    number = next(iter(condition.inputs)) if condition.bounded else None
    for operator in chain.operators[chain.operators.index(filters[0]) + 1 :]:
        if isinstance(operator, Project):
            number = next((item.value.column for item in operator.items if item.id == number), None)
    return number in {item.id for item in low.items}


def _first_rows(chain: _Chain, changed: Operator, stored: StoredRows, deltas: Deltas) -> Operator:
    """Return rows of the window's input that include the first rows of each affected partition."""
    low, columns = chain.low, chain.low.child.columns
    held = Project(stored, tuple(Item(c.id, c.name, reference(chain.shown[c.id])) for c in columns))
    came, went = came_and_went(changed, columns, deltas)
    placing = {name for each in low.order for name in each.value.inputs}
    compared = {str(key.column) for key in low.partition} | {c.id for c in columns if c.id in placing and comparable(c.type)}
    lost = deltas.shared(keyed(SemiJoin(went, held, tuple(sorted(compared))), low.partition))
    keys = tuple(Item(c.id, c.name, reference(c)) for c in lost.columns)
    same = running.same_partition(low.partition, keys)
    kept = (LeftJoin(rows, lost, JoinType.LEFT_ANTI, same) for rows in (held, came))
    return UnionAll((*kept, restrict(deltas.new(low.child), low.partition, lost)), columns)
