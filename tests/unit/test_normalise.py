"""Normalisation and restriction: the shape that they give a tree, and that the rows stay what they were."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.trees import (
    World,
    bag,
    columns,
    count_by,
    explode,
    ids,
    join,
    kept,
    left_join,
    look,
    project,
    scalar,
    scan,
    union,
)

from streamtable.algebra.normalise import PASSES, normalise
from streamtable.algebra.operators import Aggregate, Constant, Filter, JoinType, Operator, Scan, StoredRows, Unsupported
from streamtable.algebra.trees import walk
from streamtable.differentiate.restrict import restrict

L, R, X = scan("l", "k v"), scan("r", "w", rk="k"), scan("x", "t", xk="k")
LR = join(L, R, on="k = rk")
K1 = scalar("k = 1")

TREES: dict[str, Operator] = {
    "filter over a join": Filter(LR, (scalar("v < w"), K1)),
    "filters over a join": Filter(Filter(LR, (scalar("v < w"),)), (K1,)),
    "join of a join": join(LR, X, on="rk = xk"),
    "join of two joins": join(LR, join(X, scan("l", "", k2="k"), on="xk = k2"), on="rk = xk"),
    "filter over a join of a filtered join": Filter(join(Filter(LR, (K1,)), X), (scalar("rk = xk"),)),
    "join of a join that drops a column": join(kept(LR, "k w"), X, on="k = xk"),
    "join of a join in another order": join(kept(LR, "rk w v k"), X, on="k = xk"),
    "join of a join that computes": join(project(LR, k="k", s="v + w"), X, on="k = xk"),
    "union of a join in another order": union("a b c d e f", join(kept(LR, "rk w v k"), X), join(LR, X)),
    "project of some columns": project(LR, a="v + v"),
    "project of no columns": project(LR),
    "union of which one column is needed": kept(union("a b", L, project(R, p="w", q="rk + 1")), "b"),
    "filter over an outer join": Filter(left_join(LR, X, JoinType.LEFT_OUTER, "rk = xk"), (scalar("k = rk"), scalar("v < t"))),
    "filter over an anti join that drops a column": Filter(
        kept(left_join(LR, X, JoinType.LEFT_ANTI, "rk = xk"), "w v"), (scalar("v < w"),)
    ),
    "filter over what is computed": Filter(project(LR, k="k", s="v + w"), (K1, scalar("s = 2"))),
    "filter on a column that is not needed": kept(Filter(L, (K1,)), "v"),
}
INTS = st.sampled_from([None, 1, 2])


def rows(*names: str) -> st.SearchStrategy[list[dict[str, object]]]:
    return st.lists(st.fixed_dictionaries(dict.fromkeys(names, INTS)), max_size=3)


TABLES = st.fixed_dictionaries({"l": rows("k", "v"), "r": rows("k", "w"), "x": rows("k", "t")})


def scanned(tree: Operator) -> list[list[str]]:
    """Return the columns that each scan reads, left to right."""
    return [ids(node) for node in walk(tree) if isinstance(node, Scan)]


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=50, deadline=None)
@given(tables=TABLES)
def test_rows_and_columns_stay_after_each_pass(name: str, tables: dict[str, list[dict[str, object]]]) -> None:
    world, tree = World(tables, tables, {}), TREES[name]
    expected = bag(tree, world)
    for apply in PASSES:
        tree = apply(tree)
        assert tree.columns == TREES[name].columns
        assert bag(tree, world) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("filter over a join", "Join(new l, new r)"),
        ("filters over a join", "Join(new l, new r)"),
        ("join of a join", "Join(new l, new r, new x)"),
        ("join of two joins", "Join(new l, new r, new x, new l)"),
        ("filter over a join of a filtered join", "Join(new l, new r, new x)"),
        ("join of a join that drops a column", "Join(new l, new r, new x)"),
        ("join of a join in another order", "Join(new l, new r, new x)"),
        ("join of a join that computes", "Join(Project(Join(new l, new r)), new x)"),
        ("project of some columns", "Project(Join(new l, new r))"),
        ("filter over an outer join", "Filter(LEFT_OUTER(Join(new l, new r), new x))"),
        ("filter over an anti join that drops a column", "LEFT_ANTI(Join(new l, new r), new x)"),
        ("filter over what is computed", "Filter(Project(Join(new l, new r)))"),
    ],
)
def test_shape(name: str, expected: str) -> None:
    assert look(normalise(TREES[name])) == expected


def test_flattening_keeps_every_conjunct() -> None:
    joined = normalise(TREES["filter over a join of a filtered join"])
    assert {c.text for c in getattr(joined, "conjuncts", ())} == {"k = rk", "k = 1", "rk = xk"}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (kept(L, "v"), [["v"]]),
        (project(L), [[]]),
        (kept(Filter(L, (K1,)), "v"), [["k", "v"]]),
        (kept(LR, "w"), [["k"], ["w", "rk"]]),
        (kept(count_by(L, g="k"), "n"), [["k"]]),
        (kept(union("a b", L, kept(R, "w rk")), "b"), [["v"], ["rk"]]),
        (kept(explode(scan("l", "k v u"), "v", "each"), "each"), [["v"]]),
        (kept(explode(scan("l", "k v u"), "v", "each"), "k"), [["k", "v"]]),
    ],
)
def test_scans_read_only_what_something_above_needs(tree: Operator, expected: list[list[str]]) -> None:
    assert scanned(normalise(tree)) == expected


def test_a_call_that_nothing_needs_is_not_computed_but_keys_stay() -> None:
    pruned = normalise(kept(count_by(L, g="k", h="v"), "g"))
    (grouped,) = (node for node in walk(pruned) if isinstance(node, Aggregate))
    assert ([key.id for key in grouped.keys], grouped.calls) == (["g", "h"], ())


def test_what_has_no_rule_is_left_as_it_is() -> None:
    limit = Unsupported("GlobalLimit", (TREES["filter on a column that is not needed"],), columns("v"), "no rule")
    assert scanned(normalise(limit)) == [["k", "v"]]
    assert normalise(Constant(0, columns("c d"))) == Constant(0, columns("c d"))


GROUPED: dict[str, tuple[Aggregate, str]] = {
    "scan": (count_by(L, g="k"), "SemiJoin(new l by k)"),
    "two keys": (count_by(L, g="k", h="v"), "SemiJoin(new l by k v)"),
    "filter": (count_by(Filter(L, (scalar("v < 2"),)), g="k"), "Filter(SemiJoin(new l by k))"),
    "project that renames": (count_by(project(L, a="k", b="v"), g="a"), "SemiJoin(new l by k)"),
    "project that computes the key": (count_by(project(L, a="k + 1"), g="a"), "SemiJoin(Project(new l) by a)"),
    "project with the key twice": (count_by(project(L, a="k", b="k"), g="a", h="b"), "SemiJoin(new l by a b)"),
    "left side of a join": (count_by(LR, g="k"), "Join(SemiJoin(new l by k), new r)"),
    "right side of a join": (count_by(LR, g="w"), "Join(new l, SemiJoin(new r by w))"),
    "keys of both sides": (count_by(LR, g="k", h="w"), "SemiJoin(Join(new l, new r) by k w)"),
    "union": (
        count_by(union("a b", L, kept(R, "w rk")), g="b"),
        "UnionAll(SemiJoin(new l by v), SemiJoin(new r by rk))",
    ),
    "computed key": (count_by(L, g="k + 1"), "SemiJoin(Project(new l) by __made0)"),
    "computed key and another": (count_by(L, g="k + 1", h="v"), "SemiJoin(Project(new l) by __made0 __made1)"),
}


@pytest.mark.parametrize("name", GROUPED)
@settings(max_examples=50, deadline=None)
@given(tables=TABLES, wanted=st.sets(st.tuples(INTS, INTS), max_size=2))
def test_restriction_keeps_the_rows_of_the_affected_groups(
    name: str, tables: dict[str, list[dict[str, object]]], wanted: set[tuple[int | None, int | None]]
) -> None:
    """NULL is a key like any other; restricting first and grouping then gives the affected groups whole."""
    aggregate, _ = GROUPED[name]
    keys = [key.id for key in aggregate.keys]
    affected = sorted({key[: len(keys)] for key in wanted}, key=repr)
    world = World(tables, tables, {"affected": [dict(zip(keys, key, strict=True)) for key in affected]})
    grouped = [project(tree, **{key.id: key.value.text for key in aggregate.keys}) for tree in (restricted(name), aggregate.child)]
    found, whole = (bag(each, world) for each in grouped)
    assert found == {key: count for key, count in whole.items() if key in affected}


def restricted(name: str) -> Operator:
    aggregate, _ = GROUPED[name]
    return by_keys(aggregate, "affected")


def by_keys(aggregate: Aggregate, name: str) -> Operator:
    """Restrict the input of an aggregate to the groups that are stored under a name."""
    affected = StoredRows(name, tuple(key.output for key in aggregate.keys))
    return restrict(aggregate.child, [key.value for key in aggregate.keys], affected)


@pytest.mark.parametrize("name", GROUPED)
def test_restriction_goes_down_to_where_the_keys_come_from(name: str) -> None:
    assert look(restricted(name)) == GROUPED[name][1]


def test_restriction_below_a_generator() -> None:
    made = explode(L, "v", "each")
    by_row, by_element = count_by(made, g="k"), count_by(made, g="each")
    assert look(by_keys(by_row, "t")) == "Generate(SemiJoin(new l by k))"
    assert look(by_keys(by_element, "t")) == "SemiJoin(Generate(new l) by each)"


def test_a_global_aggregate_is_not_restricted() -> None:
    whole = count_by(LR)
    assert by_keys(whole, "t") == LR
