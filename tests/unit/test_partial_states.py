"""The columns that an arrangement stores per group: which there are, and what a change makes of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from streamtable.algebra.columns import itself
from streamtable.algebra.distinct_calls import store_distinct_values
from streamtable.algebra.operators import Aggregate, Operator, Project
from streamtable.algebra.reading import read_plan
from streamtable.differentiate.layout import layout_of
from streamtable.differentiate.states import Kind, states_of, value_of
from streamtable.differentiate.visible import uncounted, visible_states

Json = dict[str, Any]


def read(*calls: Json, names: str = "k v k v") -> Operator:
    """Read the plan of an aggregate by c0 over tables joined, whose columns are c0, c1 and so on, called `names`."""
    output = [{"id": f"c{n}", "name": name, "type": "INT", "nullable": True} for n, name in enumerate(names.split())]
    tables = [
        {"op": "Relation", "path": f"/{n}", "output": part, "children": []} for n, part in enumerate((output[:2], output[2:]))
    ]
    joined = {"op": "Join", "how": "INNER", "conjuncts": [], "output": output, "children": tables}
    key = {"id": "c10", "name": "k", "value": argument("c0")}
    results = [{"id": call["id"], "name": call["id"], "value": argument(call["id"])} for call in calls]
    plan = {"op": "Aggregate", "keys": [key], "calls": calls, "list": results, "children": [joined]}
    document = {"plan": plan, "sources": [], "views": [], "temporary_views": [], "unversioned": [], "functions": [], "clock": ""}
    tree = read_plan(json.dumps(document), "reading").tree
    assert isinstance(tree, Project)
    return tree.child


def argument(*columns: str, text: str = "v", unshown: Sequence[str] = ()) -> Json:
    """Describe a column, or a computation with several columns, as the PlanReader does: `text` names no tables."""
    facts = {"type": "INT", "nullable": True, "text": text}
    if len(columns) == 1:
        return {**facts, "column": columns[0]}
    number = sum(int(each[1:]) << 4 * n for n, each in enumerate(columns))
    known = {"inputs": sorted(columns), "unshown": unshown}
    return {**facts, "number": number, **known, "deterministic": True, "subqueries": []}


def called(id_: str, function: str, *arguments: Json, distinct: bool = False, condition: Json | None = None) -> Json:
    inputs = sorted({name for each in arguments for name in each.get("inputs", [each.get("column")])})
    text = f"{function.lower()}({', '.join(each['text'] for each in arguments)})"
    facts = {"type": "BIGINT", "nullable": True, "number": int(id_[1:]), "inputs": inputs, "deterministic": True, "subqueries": []}
    rest = {"function": function, "arguments": arguments, "distinct": distinct, "filter": condition}
    return {"id": id_, "name": id_, "text": text, **facts, **rest}


def values(tree: Operator) -> list[str]:
    assert isinstance(tree, Aggregate)
    return [value_of(call, states_of(tree), "").name for call in tree.calls]


def test_counts_of_columns_with_one_name_are_not_one_count() -> None:
    """count(l.v), count(r.v) of a join: after a refresh both were the count of l.v."""
    assert values(read(called("c11", "Count", argument("c1")), called("c12", "Count", argument("c3")))) == ["s1", "s2"]
    filtered = [called(f"c{n + 11}", "Count", argument("c1"), condition=argument(of)) for n, of in enumerate(("c1", "c3"))]
    assert values(read(*filtered)) == ["s1", "s2"]


def test_a_difference_of_columns_with_one_name_is_not_the_other_difference() -> None:
    there, back = (argument(*columns, text="(v - v)", unshown=columns) for columns in (("c1", "c3"), ("c3", "c1")))
    assert values(read(called("c11", "Count", there), called("c12", "Count", back))) == ["s1", "s2"]


def test_distinct_columns_with_one_name_are_not_one_column() -> None:
    tree = read(called("c11", "Count", argument("c1"), distinct=True), called("c12", "Count", argument("c3"), distinct=True))
    assert store_distinct_values(tree) == tree
    same = read(called("c11", "Count", argument("c1"), distinct=True), called("c12", "Sum", argument("c1"), distinct=True))
    assert store_distinct_values(same) != same


def test_calls_of_one_expression_share_their_states() -> None:
    """Also an expression over columns of both tables, where their names differ: it is read anew for each call."""
    one, other = argument("c1", "c3", text="(v - w)"), {**argument("c1", "c3", text="(v - w)"), "number": 99}
    tree = read(called("c11", "Count", one), called("c12", "Count", other), names="k v k w")
    assert values(tree) == ["s1", "s1"]
    assert layout_of(tree) == ()


def test_what_was_stored_as_one_column_is_computed_again() -> None:
    mixed_up = read(called("c11", "Count", argument("c1")), called("c12", "Count", argument("c3")))
    assert layout_of(mixed_up) == ("names told apart",)
    assert layout_of(read(called("c11", "Count", argument("c1")), called("c12", "Count", argument("c3", text="w")))) == ()


def shown(*calls: Json) -> Operator:
    """Show the key and all calls of an aggregate."""
    aggregate = read(*calls)
    return Project(aggregate, tuple(itself(c) for c in aggregate.columns))


def test_a_sum_beside_a_count_of_rows_keeps_no_count_of_its_values() -> None:
    rows, total = called("c11", "Count", {**argument(), "nullable": False}), called("c12", "Sum", argument("c1"))
    tree = shown(rows, total)
    assert visible_states(tree) is None
    lighter = uncounted(tree)
    found = visible_states(lighter)
    assert found is not None
    assert [state.kind for state in states_of(found[0])] == [Kind.COUNT, Kind.TOTAL]
    assert uncounted(lighter) == lighter


def test_a_sum_whose_count_is_shown_or_whose_groups_are_not_counted_keeps_it() -> None:
    rows, total = called("c11", "Count", {**argument(), "nullable": False}), called("c12", "Sum", argument("c1"))
    values_, mean = called("c13", "Count", argument("c1")), called("c14", "Average", argument("c1"))
    for tree in (shown(rows, total, values_), shown(total), shown(rows, mean)):
        assert uncounted(tree) == tree
