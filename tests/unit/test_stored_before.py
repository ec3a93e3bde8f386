"""Windows whose before side the table holds: the delta, what it reads, and where the rules of the operators are used instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.trees import (
    Row,
    World,
    bag,
    count_by,
    ids,
    join,
    kept,
    left_join,
    look,
    minus,
    project,
    ranked,
    rows,
    running,
    scalar,
    scan,
    source,
    top,
    window,
)

from streamtable.algebra.columns import NOW, WEIGHT, Order
from streamtable.algebra.operators import Aggregate, Filter, JoinType, Operator, StoredRows
from streamtable.algebra.trees import walk
from streamtable.differentiate.deltas import Deltas, Shared
from streamtable.differentiate.registry import RULES
from streamtable.differentiate.stored_before import BEFORE, delta_of_query, without_states

L, R = scan("l", "k v w"), scan("r", "u", rk="k")


def by(*names: str, down: bool = False) -> tuple[Order, ...]:
    return tuple(Order(scalar(name), not down, not down) for name in names)


def first(function: str, condition: str, *order: str, down: bool = False, bounded: bool = True) -> Operator:
    return kept(Filter(ranked(L, "n", function, by(*order, down=down), "k"), (scalar(condition, bounded=bounded),)), "w v k")


FIRST: dict[str, Operator] = {
    "row_number": first("row_number", "n = 1", "v", "w"),
    "row_number, downwards": first("row_number", "n = 1", "v", "w", down=True),
    "the first two": first("row_number", "n <= 2", "v", "w"),
    "less than three, shown": project(
        Filter(ranked(L, "n", "row_number", by("v", "w"), "k"), (scalar("n < 3", bounded=True),)), nth="n", a="k", b="v", c="w"
    ),
    "rank": first("rank", "n <= 2", "v"),
    "dense_rank": first("dense_rank", "n <= 2", "v"),
    "by two columns": kept(Filter(ranked(L, "n", "row_number", by("w"), "k", "v"), (scalar("(n = 1)", bounded=True),)), "v w k"),
    "renamed between": project(
        Filter(project(ranked(L, "n", "rank", by("v"), "k"), a="k", b="v", c="w", m="n"), (scalar("m = 1", bounded=True),)),
        x="c",
        y="b",
        z="a",
    ),
    "of a join": kept(
        Filter(ranked(join(L, R, on="w = rk"), "n", "row_number", by("u", "v", "w", "rk"), "k"), (scalar("n = 1", bounded=True),)),
        "k v w rk u",
    ),
}
WHOLE: dict[str, Operator] = {
    "window": window(L, "n", "k"),
    "window by two columns": window(L, "n", "v", "k"),
    "window, renamed": project(window(L, "n", "k"), m="n + 1", key="k"),
    "filter over a window": kept(Filter(window(L, "n", "k"), (scalar("n = 1"),)), "k v"),
    "windows over each other": window(window(L, "n", "k"), "m", "k", "v"),
    "rank that is not shown with all columns": kept(
        Filter(ranked(L, "n", "rank", by("v"), "k"), (scalar("n = 1", bounded=True),)), "k v"
    ),
    "the second": first("row_number", "n = 2", "v", "w", bounded=False),
    "the last": first("row_number", "n >= 2", "v", "w", bounded=False),
    "the first, and something else": kept(
        Filter(ranked(L, "n", "row_number", by("v", "w"), "k"), (scalar("n = 1", bounded=True), scalar("v < 2"))), "k v w"
    ),
    "top": top(L, "k v w", 2),
    "top after some, renamed": project(top(L, "k v w", 2, 1), a="v + 1", b="k"),
    "top of a join": top(join(L, R, on="w = rk"), "k v w rk u", 2),
    "window over a join": window(join(L, R, on="w = rk"), "n", "k"),
    "groups of a window": count_by(window(L, "n", "k"), a="k", b="n"),
    "groups of a window, of which some are shown": kept(
        Filter(count_by(window(project(L, k="k", v="v"), "m", "k"), key="k", m="m"), (scalar("n > 1"),)), "n key"
    ),
    "a window over groups of a window": window(count_by(window(L, "m", "k"), k="k", m="m"), "nth", "k"),
}
STATES: dict[str, Operator] = {
    "groups over all partitions": count_by(window(L, "m", "k"), m="m"),
    "partitions that are not shown": kept(count_by(window(L, "m", "k"), k="k", m="m"), "m n"),
    "groups of no window": count_by(L, k="k"),
    "a window over groups": window(count_by(L, k="k", v="v"), "m", "k"),
    "groups by an expression of the partition": count_by(window(L, "m", "k"), k="k + 1"),
}
OTHERWISE: dict[str, Operator] = {
    "a partition that is not shown": kept(window(L, "n", "k"), "v n"),
    "a partition by an expression": window(L, "n", "k + v"),
    "no partition": window(L, "n"),
    "no window": kept(L, "k v"),
    "the clock over a top": project(top(L, "k v w", 2), k="k", late=f"v + {NOW.id}"),
    "the clock": project(window(L, "n", "k"), k="k", late=f"n + {NOW.id}"),
}
OVER_ANOTHER: dict[str, Operator] = {"partitions that the lower window does not share": window(window(L, "n", "k"), "m", "v")}
JOINS: dict[str, Operator] = {
    "left outer": left_join(L, R, JoinType.LEFT_OUTER, "k = rk"),
    "left outer, more than an equality": left_join(L, R, JoinType.LEFT_OUTER, "k = rk AND v < u"),
    "left outer below a filter": kept(Filter(left_join(L, R, JoinType.LEFT_OUTER, "k = rk"), (scalar("u < 2"),)), "u k"),
    "left outer, renamed": project(left_join(L, R, JoinType.LEFT_OUTER, "v = rk AND k = u"), a="k + 1", b="v", c="k"),
    "semi": kept(left_join(L, R, JoinType.LEFT_SEMI, "k = rk"), "w k"),
    "anti": left_join(L, R, JoinType.LEFT_ANTI, "k = rk AND v = u"),
    "anti with itself": left_join(L, scan("l", "", k2="k", v2="v"), JoinType.LEFT_ANTI, "k = v2"),
    "semi with itself": left_join(L, scan("l", "", k2="k", v2="v"), JoinType.LEFT_SEMI, "k = k2 AND v < v2"),
    "left outer with itself, renamed": project(
        left_join(project(L, a="k", b="v"), scan("l", "", k2="k", v2="v"), JoinType.LEFT_OUTER, "a = k2"), x="a", y="v2"
    ),
    "keys that are not shown": kept(left_join(L, R, JoinType.LEFT_ANTI, "k = rk"), "w v"),
    "no equality": left_join(L, R, JoinType.LEFT_SEMI, "k < rk"),
}
INTS = st.sampled_from([None, 1, 2])


def parts(names: str) -> st.SearchStrategy[tuple[list[Row], ...]]:
    """Draw rows that stay, that go and that come."""
    row = st.fixed_dictionaries(dict.fromkeys(names, INTS))
    return st.tuples(st.lists(row, max_size=4), st.lists(row, max_size=2), st.lists(row, max_size=2))


TABLES = st.fixed_dictionaries({"l": parts("kvw"), "r": parts("ku")})


def deltas_of(changed: str, small: bool = True) -> Deltas:
    return Deltas(frozenset(map(source, changed)), {}, RULES, small)


@pytest.mark.parametrize("name", [*FIRST, *WHOLE, *OVER_ANOTHER, *JOINS, *OTHERWISE])
@settings(max_examples=60, deadline=None)
@given(tables=TABLES, changed=st.sets(st.sampled_from("lr")), small=st.booleans(), netted=st.booleans())
def test_new_is_stored_plus_delta(
    name: str, tables: dict[str, tuple[list[Row], ...]], changed: set[str], small: bool, netted: bool
) -> None:
    tree = {**FIRST, **WHOLE, **OVER_ANOTHER, **JOINS, **OTHERWISE}[name]
    old = {table: stay + gone for table, (stay, gone, _) in tables.items()}
    new = {table: stay + came if table in changed else old[table] for table, (stay, _, came) in tables.items()}
    before = World(old, old, {})
    stored: dict[str, list[Row]] = {BEFORE: rows(tree, before)}
    world = World(old, new, stored, netted=netted)
    deltas = deltas_of("".join(changed), small)
    moved = delta_of_query(tree, deltas)
    for step in deltas.steps:
        assert isinstance(step, Shared)
        stored[step.name] = rows(step.tree, world)
    assert (bag(moved, world) if moved else {}) == minus(bag(tree, world), bag(tree, before))


def read(tree: Operator, small: bool = True, changed: str = "l") -> list[str]:
    """List the leaves that a delta and its steps read."""
    deltas = deltas_of(changed, small)
    moved = delta_of_query(tree, deltas)
    assert moved is not None and ids(moved) == [*ids(tree), WEIGHT.id]
    trees = [*(step.tree for step in deltas.steps if isinstance(step, Shared)), moved]
    leaves = [look(node) for each in trees for node in walk(each) if not hasattr(node, "child") and not hasattr(node, "inputs")]
    return sorted({leaf for leaf in leaves if not leaf.startswith("shared_") and leaf != "LeftJoin"})


@pytest.mark.parametrize("name", [*FIRST, *WHOLE])
def test_no_source_that_changed_is_read_at_the_frontier(name: str) -> None:
    found = read({**FIRST, **WHOLE}[name])
    assert BEFORE in found and "old l" not in found


@pytest.mark.parametrize(("name", "stored"), [(name, name not in ("keys that are not shown", "no equality")) for name in JOINS])
def test_the_side_of_a_left_join_that_changed_is_not_read_at_the_frontier(name: str, stored: bool) -> None:
    found = read(JOINS[name], changed="l" if "itself" in name else "r")
    assert (BEFORE in found, "old r" in found) == (stored, False) if stored else BEFORE not in found


@pytest.mark.parametrize("name", [name for name in JOINS if "with itself" in name])
def test_a_join_of_a_table_with_itself_reads_each_side_once(name: str) -> None:
    assert ("old l" in read(JOINS[name])) == (name == "anti with itself")


@pytest.mark.parametrize("name", OTHERWISE)
def test_elsewhere_the_rules_of_the_operators_are_used(name: str) -> None:
    tree, deltas, others = OTHERWISE[name], deltas_of("l"), deltas_of("l")
    assert (delta_of_query(tree, deltas), deltas.steps) == (others.of(tree), others.steps)


@pytest.mark.parametrize("name", [*WHOLE, *STATES])
def test_groups_of_whole_partitions_that_the_table_shows_have_no_states(name: str) -> None:
    found = without_states({**WHOLE, **STATES}[name])
    assert [type(each) for each in found] == [Aggregate] * (name in WHOLE and "groups" in name)


def test_a_window_that_runs_is_left_to_its_own_rule_where_the_change_is_small() -> None:
    tree = running(L, "n", by("v")[0], "k")
    assert BEFORE not in read(tree)
    assert BEFORE in read(tree, small=False)


def _partitions_read(tree: Operator, old: list[Row], new: list[Row]) -> set[object]:
    """Return the partitions of which the delta reads rows of the source at the target."""
    deltas = deltas_of("l")
    moved = delta_of_query(tree, deltas)
    assert moved is not None
    seen: set[object] = set()
    stored: dict[str, list[Row]] = {BEFORE: rows(tree, World({"l": old}, {"l": old}, {}))}
    world = World({"l": old}, {"l": new}, stored, netted=True)
    for step in deltas.steps:
        assert isinstance(step, Shared)
        stored[step.name] = rows(step.tree, world)
    for node in walk(moved):
        if look(node).startswith("SemiJoin(new l"):
            seen |= {row["k"] for row in rows(node, world)}
    assert any(isinstance(node, StoredRows) for node in walk(moved))
    return seen


def _row(k: int, v: int) -> Row:
    return {"k": k, "v": v, "w": 1}


def test_only_partitions_that_lose_one_of_their_first_rows_are_read_again() -> None:
    old = [_row(1, 1), _row(1, 2), _row(2, 1), _row(2, 2), _row(3, 1)]
    came = [_row(1, 0), _row(4, 7)]
    worse_gone: Callable[[Row], bool] = lambda row: row != _row(1, 2)  # noqa: E731
    better_gone: Callable[[Row], bool] = lambda row: row != _row(2, 1)  # noqa: E731
    tree = FIRST["row_number"]
    assert _partitions_read(tree, old, [*filter(worse_gone, old), *came]) == set()
    assert _partitions_read(tree, old, [*filter(better_gone, old), *came]) == {2}
