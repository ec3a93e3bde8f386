"""What is known of affected keys becomes literals below the semi join, and only what is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.trees import columns, join, kept, left_join, running, scalar, scan, source, union

from streamtable.algebra.columns import Order
from streamtable.algebra.operators import Filter, JoinType, Operator, Scan, StoredRows
from streamtable.algebra.sources import Snapshot
from streamtable.algebra.trees import walk
from streamtable.differentiate.bounds import Extents, bounded
from streamtable.differentiate.deltas import Deltas, Shared
from streamtable.differentiate.registry import RULES
from streamtable.differentiate.restrict import restrict
from streamtable.sql.builder import text

TOUCHED = StoredRows("shared_0", columns("a b"))
L, R = scan("l", "k v w"), scan("r", "x y")
CHANGE = replace(R, snapshot=Snapshot.CHANGE)


def restricted(tree: Operator, *keys: str) -> Operator:
    return restrict(tree, [scalar(key) for key in keys], TOUCHED)


def bounds(tree: Operator) -> list[str]:
    """Return the conditions of the tree's filters, from the top down."""
    return [text(each.sql) for node in walk(tree) if isinstance(node, Filter) for each in node.conjuncts]


def within(key: str, least: int, most: int) -> str:
    return f"(`{key}` BETWEEN ST_VALUE('{least}', 'INT') AND ST_VALUE('{most}', 'INT')) OR (`{key}` IS NULL)"


def known(**extents: dict[str, tuple[str, str]]) -> Extents:
    """Know extents by the name of a stored relation or of a changed table."""
    return lambda leaf: extents.get(str(leaf.source) if isinstance(leaf, Scan) else leaf.name, {})


def test_each_key_is_bounded_and_null_equals_null() -> None:
    tree = bounded(restricted(L, "k", "v"), known(shared_0={"a": ("1", "7"), "b": ("-2", "2")}))
    assert bounds(tree) == [within("k", 1, 7), within("v", -2, 2)]
    assert tree.columns == L.columns


def test_a_column_of_which_nothing_is_known_is_not_bounded() -> None:
    assert bounds(bounded(restricted(L, "k", "v"), known(shared_0={"b": ("-2", "2")}))) == [within("v", -2, 2)]


def test_nothing_known_nothing_changed() -> None:
    tree = restricted(L, "k", "v")
    assert bounded(tree, known()) == bounded(tree, known(other={"a": ("1", "7")})) == tree


def test_bounds_go_to_the_scan_of_each_arm_with_the_restriction() -> None:
    both = union("m n", scan("l", "k v"), R)
    tree = bounded(restricted(both, "n", "m"), known(shared_0={"a": ("1", "7")}))
    assert bounds(tree) == [within("v", 1, 7), within("y", 1, 7)]


def test_the_partners_of_a_change_are_bounded_and_the_change_is_not() -> None:
    renamed = kept(CHANGE, "y x")
    tree = bounded(join(renamed, L, on="x = k AND y = v + 1"), known(r={"x": ("1", "7"), "y": ("3", "4")}, l={"k": ("0", "9")}))
    assert bounds(tree) == [within("k", 1, 7)]
    assert isinstance(tree.inputs[1], Filter)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("join_type", "expected"), [(JoinType.LEFT_OUTER, []), (JoinType.LEFT_ANTI, []), (JoinType.LEFT_SEMI, [within("k", 1, 7)])]
)
def test_the_left_side_is_bounded_only_where_it_goes_without_a_partner(join_type: JoinType, expected: list[str]) -> None:
    assert bounds(bounded(left_join(L, CHANGE, join_type, on="k = x"), known(r={"x": ("1", "7")}))) == expected
    assert bounds(bounded(left_join(CHANGE, L, join_type, on="x = k"), known(r={"x": ("1", "7")}))) == [within("k", 1, 7)]


@pytest.mark.parametrize(
    ("order", "extents", "expected"),
    [
        (Order(scalar("v"), True, True), {"__cut": ("3", "7"), "__open": ("0", "0")}, ["(v >= ST_VALUE('3', 'INT'))"]),
        (Order(scalar("v"), True, True), {"__cut": ("3", "7"), "__open": ("0", "1")}, []),  # a partition that begins with NULL
        (Order(scalar("v"), True, False), {"__cut": ("3", "7")}, ["(v >= ST_VALUE('3', 'INT')) OR (v IS NULL)"]),
        (Order(scalar("v"), False, False), {"__cut": ("3", "7")}, ["(v <= ST_VALUE('7', 'INT')) OR (v IS NULL)"]),
        (Order(scalar("v + 1"), False, False), {"__cut": ("3", "7")}, []),
        (Order(scalar("v"), True, True), {"__open": ("0", "0")}, []),  # only NULL changed
    ],
)
def test_a_running_window_is_read_from_the_foremost_cut_on(
    order: Order, extents: dict[str, tuple[str, str]], expected: list[str]
) -> None:
    deltas = Deltas(frozenset({source("l")}), {}, RULES)
    deltas.of(running(L, "n", order))
    cuts, following, before = (step.tree for step in deltas.steps if isinstance(step, Shared))
    assert bounds(bounded(following, known(shared_0=extents))) == expected
    assert bounds(bounded(before, known(shared_0=extents))) == []  # what comes before is read whole
    assert bounded(cuts, known(shared_0=extents)) == cuts
