"""Forms of a query whose states are worth storing: they give the same rows, and apply where they say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.trees import World, bag, count_by, ids, kept, left_join, look, project, scalar, scan, union

from streamtable.algebra.columns import NOW, Call, Item, itself
from streamtable.algebra.distinct import merge_distincts
from streamtable.algebra.distinct_calls import store_distinct_values
from streamtable.algebra.operators import Aggregate, Constant, Filter, JoinType, LeftJoin, Operator, UnionAll
from streamtable.algebra.partners import store_partners
from streamtable.algebra.trees import walk

L, R = scan("l", "k v"), scan("r", "w", rk="k")
SEMI, ANTI = JoinType.LEFT_SEMI, JoinType.LEFT_ANTI


def called(id_: str, sql: str, function: str, argument: str, distinct: bool = False, of: str = "INT") -> Call:
    arguments = (scalar(argument, type=of),) if argument else ()
    result = replace(scalar(sql), type="BIGINT", nullable=function != "Count")
    return Call(id_, result, function, arguments, distinct)


DISTINCT = called("d", "count(DISTINCT v)", "Count", "v", distinct=True)
SUMMED = called("s", "sum(DISTINCT v)", "Sum", "v", distinct=True)
ROWS = called("n", "count(1)", "Count", "")
TOTAL = called("t", "sum(k)", "Sum", "k")
LEAST = called("m", "min(k)", "Min", "k")


def grouped(*calls: Call, by: str | None = "k", of: Operator = L) -> Aggregate:
    return Aggregate(of, (Item("g", "g", scalar(by)),) if by else (), calls)


VALUES: dict[str, Operator] = {
    "count": grouped(DISTINCT),
    "count and sum": grouped(DISTINCT, SUMMED),
    "beside others": grouped(ROWS, DISTINCT, TOTAL, LEAST),
    "without keys": grouped(DISTINCT, by=None),
    "without keys, beside others": grouped(TOTAL, ROWS, DISTINCT, LEAST, by=None),
    "by an expression": grouped(DISTINCT, ROWS, by="k + 1"),
    "below a filter": Filter(grouped(DISTINCT, ROWS), (scalar("d < n"),)),
    "over a union": grouped(DISTINCT, of=union("k v", L, kept(R, "rk w"))),
}
PARTNERS: dict[str, LeftJoin] = {
    "semi": left_join(L, R, SEMI, "k = rk"),
    "anti": left_join(L, R, ANTI, "k = rk"),
    "by two": left_join(L, R, ANTI, "k = rk AND v = w"),
    "by expressions": left_join(L, R, SEMI, "k + 1 = w"),
    "the other way round": left_join(L, R, SEMI, "rk = k"),
    "one side alone": left_join(L, R, ANTI, "k = rk AND w < 2 AND v < 2"),
    "of a union": left_join(L, union("a b", R, kept(L, "k v")), SEMI, "k = a"),
}
INTS = st.sampled_from([None, 1, 2, 3])
ROW = st.fixed_dictionaries({"k": INTS, "v": INTS, "w": INTS})
TABLES = st.fixed_dictionaries({"l": st.lists(ROW, max_size=5), "r": st.lists(ROW, max_size=5)})


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=60, deadline=None)
@given(tables=TABLES)
def test_distinct_values_that_are_stored_give_the_same_rows(name: str, tables: dict[str, list[dict[str, object]]]) -> None:
    tree, world = VALUES[name], World(tables, tables, {})
    stored = store_distinct_values(tree)
    assert ids(stored) == ids(tree)
    assert bag(stored, world) == bag(tree, world)


@pytest.mark.parametrize("name", VALUES)
def test_no_call_over_distinct_values_is_left(name: str) -> None:
    found = look(store_distinct_values(VALUES[name]))
    assert "Aggregate(Aggregate(" in found


@pytest.mark.parametrize(
    "tree",
    [
        grouped(ROWS, TOTAL),
        grouped(replace(DISTINCT, filter=scalar("k < 2"))),
        grouped(DISTINCT, called("e", "count(DISTINCT k)", "Count", "k", distinct=True)),
        grouped(called("d", "count(DISTINCT v)", "Count", "v", distinct=True, of="DOUBLE")),
        grouped(called("d", "count(DISTINCT v)", "Count", "v", distinct=True, of="STRING COLLATE UTF8_LCASE")),
        grouped(called("c", "collect_set(DISTINCT v)", "CollectSet", "v", distinct=True)),
        grouped(DISTINCT, called("a", "avg(k)", "Average", "k")),
        grouped(DISTINCT, called("t", "sum(k)", "Sum", "k", of="DOUBLE")),
        grouped(DISTINCT, called("t", "sum(k)", "Sum", "k", of="DECIMAL(19,2)")),
        grouped(DISTINCT, called("t", "try_sum(k)", "Sum", "k")),
    ],
)
def test_other_aggregates_stay_as_they_are(tree: Operator) -> None:
    assert store_distinct_values(tree) == tree


@settings(max_examples=30, deadline=None)
@given(tables=TABLES)
def test_a_union_of_many_branches_is_one_distinct(tables: dict[str, list[dict[str, object]]]) -> None:
    tree: Operator = L
    for n in range(30):
        below = union("a b", project(tree, x=ids(tree)[0], y=ids(tree)[1]), kept(Filter(R, (scalar(f"w < {n}"),)), "rk w"))
        tree = Aggregate(below, tuple(itself(c) for c in below.columns), ())
    merged, world = merge_distincts(tree), World(tables, tables, {})
    assert [len(node.inputs) for node in walk(merged) if isinstance(node, UnionAll)] == [2] * 30
    assert sum(isinstance(node, Aggregate) for node in walk(merged)) == 1
    assert bag(merged, world) == bag(tree, world)


def distinct(of: Operator, type_: str, sql: str = "k") -> Aggregate:
    return Aggregate(of, (Item("g", "g", scalar(sql, type=type_)),), ())


@pytest.mark.parametrize("type_", ["STRING COLLATE UTF8_LCASE", "DOUBLE", "ARRAY<FLOAT>", "MAP<STRING,INT>"])
def test_a_distinct_stays_where_what_is_above_tells_equal_values_apart(type_: str) -> None:
    below = distinct(L, type_)
    for tree in (
        distinct(project(below, h="CAST(g AS STRING)"), "STRING", "h"),
        distinct(Filter(below, (scalar("g < 2"),)), type_, "g"),
    ):
        assert merge_distincts(tree) == tree
    moved = distinct(union("h", project(below, h="g"), kept(R, "rk")), type_, "h")
    assert sum(isinstance(node, Aggregate) for node in walk(merge_distincts(moved))) == 1, "columns that move tell nothing"


@pytest.mark.parametrize("name", PARTNERS)
@settings(max_examples=60, deadline=None)
@given(tables=TABLES)
def test_partners_that_are_stored_keep_the_same_rows(name: str, tables: dict[str, list[dict[str, object]]]) -> None:
    tree, world = PARTNERS[name], World(tables, tables, {})
    stored = store_partners(tree)
    assert isinstance(stored, LeftJoin) and isinstance(stored.right, Aggregate) and not stored.right.calls
    assert bag(stored, world) == bag(tree, world)


@pytest.mark.parametrize(
    "tree",
    [
        left_join(L, R, JoinType.LEFT_OUTER, "k = rk"),
        left_join(L, R, SEMI, "k < rk"),
        left_join(L, R, ANTI, "k = rk AND v < w"),
        left_join(L, R, SEMI),
        left_join(L, count_by(R, g="rk"), ANTI, "k = g"),
        left_join(L, project(count_by(R, g="rk"), h="g"), ANTI, "k = h"),
        left_join(L, Constant(0, R.columns), SEMI, "k = rk"),
        left_join(L, Filter(R, (scalar(f"w < {NOW.id}"),)), SEMI, "k = rk"),
    ],
)
def test_other_joins_stay_as_they_are(tree: Operator) -> None:
    assert store_partners(tree) == tree
