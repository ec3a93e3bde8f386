"""WITH RECURSIVE: the change that is followed from level to level is the difference of two recursions; what is computed as a whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.trees import (
    Row,
    World,
    bag,
    columns,
    ids,
    join,
    kept,
    left_join,
    levels,
    look,
    minus,
    project,
    rows,
    scalar,
    scan,
    source,
    union,
    window,
)

from streamtable.algebra.columns import WEIGHT, Column
from streamtable.algebra.operators import Filter, JoinType, Operator, Recursion, WorkingTable
from streamtable.algebra.recursion import LEVEL, counted, levelled
from streamtable.algebra.sources import CLOCK
from streamtable.differentiate.deltas import Deltas, Moved, Recursed, Shared
from streamtable.differentiate.registry import RULES, findings, prunes_nothing

L, R, X = scan("l", "k v"), scan("r", "w", rk="k"), scan("x", "t", xk="k")
LOOP = source("loop")
P = WorkingTable(LOOP, columns("p q"))
START = project(R, n="rk", d="w")
ALONG = join(P, L, on="p = k AND k < v")


def recursion(step: Operator, anchor: Operator = START) -> Recursion:
    return Recursion(LOOP, anchor, step, columns("n d"))


TREES = {
    "along edges": recursion(project(ALONG, n="v", d="q")),
    "by depth": recursion(project(Filter(join(P, L, on="p = k"), (scalar("q < 3"),)), n="v", d="q + 1")),
    "two tables": recursion(project(join(ALONG, X, on="v = xk"), n="v", d="t")),
    "an anchor of two": recursion(project(ALONG, n="v", d="q"), union("n d", START, kept(X, "xk t"))),
    "without the barred": recursion(project(left_join(ALONG, X, JoinType.LEFT_ANTI, "v = xk"), n="v", d="q")),
    "two ways": recursion(union("n d", project(ALONG, n="v", d="q"), project(ALONG, n="k + 1", d="v"))),
    "by the clock": recursion(project(Filter(ALONG, (scalar("v < __streamtable_now"),)), n="v", d="q")),
}
INTS = st.sampled_from([None, 1, 2, 3])
TABLES = st.fixed_dictionaries(
    {
        table: st.lists(st.fixed_dictionaries(dict.fromkeys(names, INTS)), max_size=4)
        for table, names in {"l": "kv", "r": "kw", "x": "kt"}.items()
    }
)


def follow(change: Recursed, world: World) -> Counter[tuple[object, ...]]:
    """Do what a refresh does: net each level, and go on until nothing comes any more."""
    names, working = ids(change.recursion), [*ids(change.working), WEIGHT.id]
    arriving = rows(change.arriving, world)
    found: Counter[tuple[object, ...]] = Counter()
    level: list[Row] = []
    for at in range(20):
        here = [row for row in arriving if row[LEVEL.id] == at]
        before = [dict(zip(working, (row[name] for name in [*names, WEIGHT.id]), strict=True)) for row in level]
        made = rows(change.step, World(world.old, world.new, {**world.stored, LOOP.path: before}, world.clock))
        net: Counter[tuple[object, ...]] = Counter()
        for row in [*here, *made]:
            net[tuple(row[name] for name in names)] += row[WEIGHT.id]
        level = [
            {**dict(zip(names, values, strict=True)), WEIGHT.id: 1 if times > 0 else -1}
            for values, times in net.items()
            for _ in range(abs(times))
        ]
        found.update({values: times for values, times in net.items() if times})
    return found


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=60, deadline=None)
@given(old=TABLES, new=TABLES, clock=st.sampled_from([(1, 1), (2, 3), (4, 2)]))
def test_the_change_of_all_levels(name: str, old: dict[str, list[Row]], new: dict[str, list[Row]], clock: tuple[int, int]) -> None:
    tree = TREES[name]
    stored = counted(tree)
    assert stored is not None and isinstance(stored.child, Recursion)
    before, after = (World(state, state, {}, (at, at)) for state, at in ((old, clock[0]), (new, clock[1])))
    was, becomes = (bag(stored.child, world) for world in (before, after))
    world = World(old, new, {}, clock)
    world.stored["a0_old"] = [  # type: ignore[index]
        {**dict(zip(ids(stored.child), row, strict=True)), stored.calls[0].id: times} for row, times in was.items()
    ]
    deltas = Deltas(frozenset({source("l"), source("r"), source("x"), CLOCK}), {stored: "a0"}, RULES)
    assert deltas.of(tree) is not None
    change = None
    for each in deltas.steps:
        match each:
            case Shared():
                world.stored[each.name] = rows(each.tree, world)  # type: ignore[index]
            case Recursed():
                change = each
            case Moved():
                assert look(each.change) == "a0_changes"
    assert change is not None
    assert follow(change, world) == minus(becomes, was)


def test_what_is_read() -> None:
    tree = TREES["along edges"]
    stored = counted(tree)
    assert stored is not None
    deltas = Deltas(frozenset({source("l")}), {stored: "a0"}, RULES)
    assert look(deltas.of(tree)) == "a0_changes"  # type: ignore[arg-type]
    change, moved = deltas.steps
    assert isinstance(change, Recursed) and isinstance(moved, Moved)
    assert look(change.arriving) == "Project(UnionAll(Join(delta l, Generate(a0_old))))"
    assert look(change.step) == "Project(UnionAll(Join(/loop, new l)))"
    assert look(deltas.new(tree)) == "Generate(a0_new)" and look(deltas.old(tree)) == "Generate(a0_old)"
    assert prunes_nothing(tree, frozenset({source("l")})) is None


def test_levels_are_counted_from_the_anchor() -> None:
    tree = levelled(TREES["along edges"])
    assert tree is not None
    edges = [{"k": 1, "v": 2}, {"k": 2, "v": 3}]
    world = World({}, {"l": edges, "r": [{"k": 1, "w": 7}]}, {})
    assert [tuple(row.values()) for row in rows(tree, world)] == [(1, 7, 0), (2, 7, 1), (3, 7, 2)]
    assert [len(level) for level in levels(tree, rows(tree.anchor, world), world)] == [1, 1, 1]


@pytest.mark.parametrize(
    "step",
    [
        window(P, "rows", "p"),
        join(P, WorkingTable(LOOP, columns("p2 q2")), on="p = p2"),
        union("p q", P, kept(L, "k v")),
        left_join(L, P, JoinType.LEFT_ANTI, "k = p"),
    ],
    ids=["a window over it", "it twice", "a union with a table", "an anti join with it"],
)
def test_a_step_that_is_not_linear_is_computed_as_a_whole(step: Operator) -> None:
    tree = recursion(kept(step, " ".join(ids(step)[:2])))
    assert counted(tree) is None
    deltas = Deltas(frozenset({source("r")}), {}, RULES)
    assert look(deltas.of(tree)) == "UnionAll(Project(Recursion), Project(Recursion))"  # type: ignore[arg-type]
    assert findings(tree)[0].reason.endswith("it is computed as a whole, before and after")
    asked = prunes_nothing(tree, frozenset({source("r")}))
    assert asked is not None and asked.operator == "Recursion"


def test_rows_that_cannot_be_counted_are_computed_as_a_whole() -> None:
    assert counted(replace(TREES["along edges"], columns=(*columns("n"), Column("d", "d", "MAP<INT,INT>")))) is None
