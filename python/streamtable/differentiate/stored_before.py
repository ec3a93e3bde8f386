"""Delta of a query with windows, left joins or LIMIT, whose stream table holds the rows before the change.

    D(Q) = Q(A' semijoin K) - (T semijoin K)

Q is a chain of projections, filters and windows over A, the input of the lowest window. T is the stream table, so T = Q(A).
K = the partitions of the lowest window that occur in D(A). The windows above have its partition columns among theirs, and the
output shows these columns. Every row of Q(A) comes from rows of its own partition, so Q(A) semijoin K = Q(A semijoin K), and all
other partitions stay as they are.

Where Q keeps the first k rows of each partition and shows all columns of A, T stands for A too, except in few partitions:

    D(Q) = Q(B) - (T semijoin K)
    B    = (T semijoin K - L)  +  (D+ semijoin K - L)  +  (A' semijoin L)

D+ and D- are the rows of the netted D(A) that come and that go. L = the partitions where D- has a row of T, or a row that equals
one of T in the columns that decide its place. A row outside the first k has k rows of T before it. Outside L these stay, so that
row stays behind them. The number by row_number, rank or dense_rank depends on earlier rows only.

Where Q is a chain of projections and filters over a left outer, semi or anti join A op B, and shows the keys of A:

    D(Q) = Q(D(A) op B')  +  Q((A semijoin K) op (B' semijoin K)) - (T semijoin K)

with K = the keys in D(B), as in `left_join`: T semijoin K is the result for these rows of A with B.

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

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from streamtable.algebra.columns import WEIGHT, Column, Item, Scalar, itself, reference
from streamtable.algebra.identity import comparable, told_apart
from streamtable.algebra.operators import (
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
from streamtable.algebra.trees import reads_clock, replaced
from streamtable.differentiate import running
from streamtable.differentiate.deltas import Deltas, came_and_went, difference, total
from streamtable.differentiate.left_join import linear
from streamtable.differentiate.restrict import equalities, keyed, restrict

__all__ = ["BEFORE", "delta_of_query", "stands_for_before"]

BEFORE = "table_before"
"""Names the rows of the stream table at the frontier. Their columns have the ids of the query's columns."""


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
    if deltas.small and not chain.filters and any(running.applies(each) for each in chain.windows):
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
    return chain.operators if chain and chain.filters else ()


def _left_joined(tree: Operator, deltas: Deltas) -> Operator | None:
    """Return the delta where the query ends with a left join whose right side changed, and the table shows the keys of its left."""
    *above, (join, shown) = _descent(tree)
    if not isinstance(join, LeftJoin) or any(isinstance(each, Window) for each, _ in above):
        return None
    may_fail = any(scalar.fails for each, _ in above for scalar in _scalars(each))
    if (may_fail and deltas.affected(join.left)) or (changed := deltas.of(join.right)) is None:
        return None  # what may fail is evaluated on netted rows: `Deltas.settled`
    pairs = equalities(join.left, join.right, join.conjuncts)
    of_left, of_right = [a for a, _ in pairs], [b for _, b in pairs]
    if not pairs or not all(a.column in shown for a in of_left):
        return None
    affected = deltas.shared(keyed(deltas.once(changed), of_right))
    kept = restrict(deltas.old(join.left), of_left, affected)
    after = replace(join, left=kept, right=restrict(deltas.new(join.right), of_right, affected))
    before = restrict(StoredRows(BEFORE, tree.columns), [reference(shown[str(a.column)]) for a in of_left], affected)
    stayed = difference(replaced(tree, join, after), before)
    first = linear(join, deltas)
    return total(stayed, None if first is None else _lifted(tree, join, first))


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

    The last one is the first that is no projection, filter or window, or that reads the clock.
    """
    shown = {c.id: c for c in tree.columns}
    yield tree, shown
    while isinstance(tree, (Project, Filter, Window)) and not reads_clock(tree):
        if isinstance(tree, Project):
            named = [(item.id, item.value.column) for item in tree.items]
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

    operators: tuple[Project | Filter | Window, ...]
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


def _chain(tree: Operator) -> _Chain | None:
    """Return the chain down to the lowest window whose partitions the output shows and the windows above share."""
    found = None
    operators: list[Project | Filter | Window] = []
    shared: set[str] | None = None  # the columns by which the windows above part the rows
    for node, shown in _descent(tree):
        if not isinstance(node, (Project, Filter, Window)) or reads_clock(node):
            break
        operators.append(node)
        match node:
            case Window(partition=partition):
                keys = {key.column for key in partition}
                if not keys or None in keys or not keys <= (shown.keys() if shared is None else shared):
                    break
                shared = {str(key) for key in keys}
                found = _Chain(tuple(operators), shown)
            case Project(items=items) if shared is not None:
                shared = {item.value.column for item in items if item.value.column is not None and item.id in shared}
    return found


def _keeps_first(chain: _Chain) -> bool:
    """Tell whether the chain keeps the first rows of each partition by one number, and shows all columns of the window's input."""
    low, filters = chain.low, chain.filters
    if len(chain.windows) > 1 or len(filters) != 1 or len(filters[0].conjuncts) != 1:
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
