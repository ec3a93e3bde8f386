"""Windows, LIMIT, grouping sets and set operations: what is computed again, over which rows, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.trees import (
    Row,
    World,
    bag,
    columns,
    expand,
    ids,
    join,
    kept,
    left_join,
    look,
    minus,
    project,
    rows,
    running,
    scalar,
    scan,
    source,
    top,
    union,
    window,
)

from streamtable.algebra.columns import WEIGHT, Item, Order
from streamtable.algebra.operators import (
    Aggregate,
    Expand,
    Filter,
    Generate,
    JoinType,
    LeftJoin,
    Operator,
    StoredRows,
    TopK,
    UnionAll,
    Window,
)
from streamtable.algebra.set_operations import set_operation
from streamtable.algebra.trees import walk
from streamtable.differentiate.deltas import Deltas, Shared
from streamtable.differentiate.registry import RULES, obstacle
from streamtable.differentiate.restrict import restrict

L, R = scan("l", "k v"), scan("r", "w", rk="k")
LR = join(L, R, on="k = rk")

TREES: dict[str, Operator] = {
    "window": window(L, "n", "k"),
    "window by two columns": window(L, "n", "k", "v"),
    "window by an expression": window(L, "n", "k + v"),
    "window without partitions": window(L, "n"),
    "windows over each other": window(window(L, "n", "k"), "m", "v"),
    "windows over each other, of the same partitions": window(window(L, "n", "k"), "m", "k", "v"),
    "windows over each other, of more partitions": window(window(L, "n", "k", "v"), "m", "k"),
    "windows over each other, one without partitions": window(project(window(L, "n"), k="k", n="n"), "m", "k"),
    "window over a join": window(LR, "n", "rk"),
    "window over an outer join": window(left_join(L, R, JoinType.LEFT_OUTER, "k = rk"), "n", "w"),
    "running window": running(L, "n", Order(scalar("v"), True, True), "k"),
    "running window, NULL last": running(L, "n", Order(scalar("v"), True, False), "k"),
    "running window, downwards": running(L, "n", Order(scalar("v"), False, False), "k"),
    "running window, downwards, NULL first": running(L, "n", Order(scalar("v + 1"), False, True), "k + 1"),
    "running window without partitions": running(L, "n", Order(scalar("v"), True, True)),
    "running window without partitions, NULL last": running(L, "n", Order(scalar("k"), True, False)),
    "running windows over each other": running(
        running(L, "n", Order(scalar("v"), True, True), "k"), "m", Order(scalar("n"), False, False)
    ),
    "running window over a join": running(LR, "n", Order(scalar("w"), True, True), "rk"),
    "outer join of windows": left_join(window(L, "n", "k"), window(R, "m", "rk"), JoinType.LEFT_OUTER, "k = rk"),
    "filter over a window": Filter(window(L, "n", "k"), (scalar("n = 1"),)),
    "top": top(L, "k v", 2),
    "top after some": top(L, "k v", 1, 1),
    "all after some": top(L, "k v", None, 2),
    "top of a top": top(top(L, "k v", 3), "v k", 1),
    "join over a top": join(top(L, "k v", 2), R, on="k = rk"),
    "window over a top": window(top(L, "v k", 2), "n", "k"),
    "expand": expand(L, "a b", "k v", "k 0", "0 0"),
    "expand over an outer join": expand(left_join(L, R, JoinType.LEFT_OUTER, "k = rk"), "a b", "k w", "v 0"),
    "window over an expansion": window(expand(L, "a b", "k v", "k 0"), "n", "a"),
}
INTS = st.sampled_from([None, 1, 2])


def parts(names: str) -> st.SearchStrategy[tuple[list[Row], ...]]:
    """Draw rows that stay, that go and that come."""
    row = st.fixed_dictionaries(dict.fromkeys(names, INTS))
    return st.tuples(st.lists(row, max_size=3), st.lists(row, max_size=2), st.lists(row, max_size=2))


TABLES = st.fixed_dictionaries({"l": parts("kv"), "r": parts("kw")})


def deltas_of(changed: str, small: bool = True) -> Deltas:
    return Deltas(frozenset(map(source, changed)), {}, RULES, small)


def delta(tree: Operator, small: bool = True) -> Operator:
    found = deltas_of("lr", small).of(tree)
    assert found is not None
    return found


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=50, deadline=None)
@given(tables=TABLES, changed=st.sets(st.sampled_from("lr")), small=st.booleans(), netted=st.booleans())
def test_new_is_old_plus_delta(
    name: str, tables: dict[str, tuple[list[Row], ...]], changed: set[str], small: bool, netted: bool
) -> None:
    old = {table: stay + gone for table, (stay, gone, _) in tables.items()}
    new = {table: stay + came if table in changed else old[table] for table, (stay, _, came) in tables.items()}
    stored: dict[str, list[Row]] = {}
    world = World(old, new, stored, netted=netted)
    deltas = deltas_of("".join(changed), small)
    moved = deltas.of(TREES[name])
    for step in deltas.steps:
        assert isinstance(step, Shared)
        stored[step.name] = rows(step.tree, world)
    expected = minus(bag(TREES[name], world), bag(TREES[name], World(old, old, {})))
    assert (bag(moved, world) if moved else {}) == expected


@pytest.mark.parametrize("name", TREES)
def test_a_delta_has_the_columns_of_its_operator_and_a_weight(name: str) -> None:
    assert ids(delta(TREES[name])) == [*ids(TREES[name]), WEIGHT.id]


def test_window_reads_only_affected_partitions() -> None:
    assert look(delta(window(L, "n", "k"), small=False)) == (
        "UnionAll(Project(Window(SemiJoin(new l by k))), Project(Window(SemiJoin(old l by k))))"
    )
    small = deltas_of("l")
    found = small.of(window(L, "n", "k"))
    assert found is not None
    # What was there is what is there without the change: the table is read once.
    before = "Generate(Aggregate(UnionAll(Project(shared_1), Project(delta l))))"
    assert look(found) == f"UnionAll(Project(Window(shared_1)), Project(Window({before})))"
    assert [look(step.tree) for step in small.steps if isinstance(step, Shared)] == ["delta l", "SemiJoin(new l by k)"]


def test_windows_of_the_same_partitions_are_computed_at_once() -> None:
    found = delta(window(window(L, "n", "k"), "m", "k", "v"), small=False)
    assert look(found) == ("UnionAll(Project(Window(Window(SemiJoin(new l by k)))), Project(Window(Window(SemiJoin(old l by k)))))")


def test_window_without_partitions_reads_all() -> None:
    assert look(delta(window(L, "n"))) == "UnionAll(Project(Window(new l)), Project(Window(old l)))"


def test_expand_works_on_the_delta_alone() -> None:
    found = delta(expand(L, "a b", "k v", "k 0"))
    assert isinstance(found, Expand)
    assert look(found) == "Expand(delta l)"
    assert all(projection[-1].column == WEIGHT.id for projection in found.projections)


RESTRICTED: dict[str, tuple[Operator, str, str]] = {
    "a window whose partitions are the keys": (window(L, "n", "k", "v"), "k", "Window(SemiJoin(new l by k))"),
    "not a window of other partitions": (window(L, "n", "v"), "k", "SemiJoin(Window(new l) by k)"),
    "not what a window made": (window(L, "n", "k"), "n", "SemiJoin(Window(new l) by n)"),
    "not a top": (top(L, "k v", 2), "k", "SemiJoin(TopK(new l) by k)"),
    "not an expansion, which makes its keys": (expand(L, "a", "k", "0"), "a", "SemiJoin(Expand(new l) by a)"),
    "both inputs of an outer join by its equality": (
        left_join(L, R, JoinType.LEFT_OUTER, "k = rk"),
        "k",
        "LEFT_OUTER(SemiJoin(new l by k), SemiJoin(new r by rk))",
    ),
    "the left input alone by another column": (
        left_join(L, R, JoinType.LEFT_ANTI, "k = rk"),
        "v",
        "LEFT_ANTI(SemiJoin(new l by v), new r)",
    ),
    "not the right input of an outer join, whose padded rows have other keys": (
        left_join(L, R, JoinType.LEFT_OUTER, "k = rk"),
        "rk",
        "SemiJoin(LEFT_OUTER(new l, new r) by rk)",
    ),
    "each arm of a union": (union("a b", L, kept(R, "w rk")), "a", "UnionAll(SemiJoin(new l by k), SemiJoin(new r by w))"),
}


@pytest.mark.parametrize("name", RESTRICTED)
def test_restriction_passes(name: str) -> None:
    tree, key, expected = RESTRICTED[name]
    assert look(restrict(tree, (scalar(key),), StoredRows("affected", columns("t")))) == expected


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("intersect", [False, True])
def test_set_operation_is_a_count_of_both_sides(intersect: bool, every: bool) -> None:
    tree = set_operation(L, kept(R, "rk w"), columns("a b"), intersect=intersect, every=every)
    assert ids(tree) == ["a", "b"]
    (grouped,) = [node for node in walk(tree) if isinstance(node, Aggregate)]
    assert [key.id for key in grouped.keys] == ["a", "b"]
    assert [call.function for call in grouped.calls] == ["Sum", "Sum"]
    assert isinstance(grouped.child, UnionAll)
    assert any(isinstance(node, Generate if every else Filter) for node in walk(tree))
    assert obstacle(tree) is None


BAD = {
    "volatile": (scalar("v", deterministic=False), "volatile expression v"),
    "clock": (scalar("v", clock=True), "v depends on the clock"),
    "subquery": (scalar("v", subqueries=("Exists",)), "subquery expression (Exists)"),
    "open": (scalar("v", open=True), "v depends on which of equal rows comes first"),
}


@pytest.mark.parametrize("reason", BAD)
def test_refusals_name_the_operator(reason: str) -> None:
    bad, expected = BAD[reason]
    trees: dict[str, Operator] = {
        "Window": Window(L, (), (Item("n", "n", bad),)),
        "Window (count(1))": Window(L, (bad,), (Item("n", "n", scalar("count(1)")),)),
        "Top 2": TopK(L, (Order(bad, True, True),), 2, 0),
        "Expand": Expand(L, ((scalar("k"),), (bad,)), columns("a")),
        "Left Outer": LeftJoin(L, R, JoinType.LEFT_OUTER, (bad,)),
    }
    for operator, tree in trees.items():
        found = obstacle(project(tree, one="k"))
        assert found is not None
        assert found.operator.startswith(operator)
        assert found.reason.startswith(expected)
