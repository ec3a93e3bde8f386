"""Floating sums of windows may be handed on; where an operator looks at one, the query is refused, unless the table stands for the rows before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.trees import count_by, expand, explode, join, kept, left_join, project, scalar, scan, top, union, window

from streamtable.algebra.columns import Item
from streamtable.algebra.operators import Aggregate, Filter, JoinType, Operator
from streamtable.differentiate.registry import obstacle

L, R = scan("l", "k v"), scan("r", "w", rk="k")
SUMS = replace(window(L, "s", "k"), items=(Item("s", "s", scalar("sum(v)", rounds=True)),))
"""k, v and s, a sum that rounds; its partitions are those of k."""

FILTERED = Filter(SUMS, (scalar("s > 1"),))
LOOKED_AT: dict[str, Operator] = {
    "a group": count_by(SUMS, g="s"),
    "an aggregate whose partitions are not shown": kept(count_by(FILTERED, g="k"), "n"),
    "a computed key": count_by(project(SUMS, t="s + 1"), g="t"),
    "a filter whose partitions are not shown": project(FILTERED, s="s"),
    "a join": join(SUMS, R, on="s = w"),
    "a left join": left_join(R, SUMS, JoinType.LEFT_ANTI, "w = s"),
    "a window's order": Filter(window(project(SUMS, j="v", s="s"), "n", "s"), (scalar("n < 2"),)),
    "a generator": explode(SUMS, "array(s)", "e"),
    "the first rows of a join": join(top(SUMS, "s", 2), R, on="k = rk"),
    "a union": count_by(union("a b", kept(SUMS, "k s"), kept(R, "rk w")), g="b"),
    "a grouping set": count_by(expand(SUMS, "a", "k", "s"), g="a"),
}
HANDED_ON: dict[str, Operator] = {
    "the root": SUMS,
    "computed": project(SUMS, k="k", t="s * 2"),
    "another column": Filter(SUMS, (scalar("v > 1"),)),
    "groups of others": count_by(SUMS, g="k"),
    "a filter whose partitions are shown": project(FILTERED, k="k", s="s"),
    "groups whose partitions are shown": count_by(FILTERED, g="k"),
    "the first rows": top(SUMS, "s", 2),
    "a join of others": join(SUMS, R, on="k = rk"),
    "another place of a union": count_by(union("a b", kept(SUMS, "k s"), kept(R, "rk w")), g="a"),
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_no_operator_looks_at_a_sum_that_rounds(name: str) -> None:
    found = obstacle(LOOKED_AT[name])
    assert found is not None and "rounding" in found.reason


@pytest.mark.parametrize("name", HANDED_ON)
def test_a_sum_that_rounds_is_handed_on(name: str) -> None:
    assert obstacle(HANDED_ON[name]) is None


def test_an_expectation_looks_at_a_sum_that_rounds() -> None:
    tree = project(FILTERED, k="k", s="s")
    assert obstacle(tree) is None and obstacle(tree, stored=False) is not None, "rows that were dropped are not in the table"


def test_arguments_that_round_are_looked_at() -> None:
    total = replace(count_by(SUMS, g="k").calls[0], arguments=(scalar("s"),))
    tree = Aggregate(SUMS, (Item("g", "g", scalar("k")),), (total,))
    assert obstacle(tree) is None and obstacle(tree, stored=False) is not None
    assert obstacle(kept(tree, "n")) is not None
