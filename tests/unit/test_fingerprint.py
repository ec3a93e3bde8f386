"""What makes a plan another plan: its tables count by their ids, wherever they lie, unless copies share one."""

from __future__ import annotations

import json

import pytest

from streamtable.query.analyse import _listed, _mentioned
from streamtable.query.fingerprint import fingerprint_of


def plan(*tables: tuple[str, str]) -> str:
    """Return the reading of a union of tables, each with its path and its id."""
    places = [{"path": path, "table": path[1:], "table_id": table_id} for path, table_id in tables]
    columns = [[{"id": f"c{i}", "name": "k", "type": "int"}] for i in range(len(places) + 1)]
    scans = [
        {"op": "Relation", "output": output, **place, "children": []} for place, output in zip(places, columns[1:], strict=True)
    ]
    return json.dumps({"sources": places, "plan": {"op": "Union", "output": columns[0], "children": scans}})


def test_a_table_is_the_same_wherever_it_lies() -> None:
    assert fingerprint_of(plan(("/old", "a"))) == fingerprint_of(plan(("/new", "a")))
    assert fingerprint_of(plan(("/old", "a"))) != fingerprint_of(plan(("/old", "b")))
    assert fingerprint_of(plan(("/a", "a"), ("/b", "b"))) != fingerprint_of(plan(("/b", "b"), ("/a", "a")))


def test_copies_with_the_same_id_are_told_apart_by_their_places() -> None:
    assert fingerprint_of(plan(("/a", "a"), ("/copy", "a"))) != fingerprint_of(plan(("/copy", "a"), ("/a", "a")))
    assert fingerprint_of(plan(("/a", "a"), ("/a", "a"))) == fingerprint_of(plan(("/new", "a"), ("/new", "a")))


def test_columns_that_have_names_like_ids_of_attributes_are_apart() -> None:
    """A query of the column c1 was the same as one of the column c2."""

    def read(column: str, number: int) -> str:
        output = [{"id": f"c{number}", "name": column, "type": "int"}]
        listed = [{"id": f"c{number + 9}", "name": "x", "value": {"column": f"c{number}", "text": column}}]
        scan = {"op": "Relation", "output": output, "path": "/a", "table_id": "a", "children": []}
        project = {"op": "Project", "output": [{"id": f"c{number + 9}", "name": "x"}], "list": listed, "children": [scan]}
        return json.dumps({"sources": [{"path": "/a", "table": "a", "table_id": "a"}], "plan": project})

    assert fingerprint_of(read("c1", 20)) != fingerprint_of(read("c2", 20))
    assert fingerprint_of(read("c1", 20)) == fingerprint_of(read("c1", 70))


@pytest.mark.parametrize("operator", ["Constant", "Expand"])
def test_values_are_known_by_the_places_of_their_columns(operator: str) -> None:
    """p of VALUES (1, 2) AS t(p, q) was the same as p of VALUES (1, 2) AS t(q, p)."""

    def read(*names: str, first: int = 1) -> str:
        output = [{"id": f"c{first + n}", "name": name, "type": "INT"} for n, name in enumerate(names)]
        p = output[names.index("p")]
        values = {"op": operator, "output": output, "rows": "1, 2", "leaf": first, "children": []}
        listed = [{**p, "value": {"column": p["id"], "text": "p"}}]
        return json.dumps({"sources": [], "plan": {"op": "Project", "output": [p], "list": listed, "children": [values]}})

    assert fingerprint_of(read("p", "q")) != fingerprint_of(read("q", "p"))
    assert fingerprint_of(read("q", "p")) == fingerprint_of(read("q", "p", first=7))


def test_the_columns_of_each_table_that_a_query_mentions() -> None:
    """Those that a join or a filter needs are among them, those that are only there are not; each table is named once."""
    columns = [{"id": f"c{n}", "name": name, "type": "int"} for n, name in enumerate(("k", "v", "a b", "unused", "k"))]
    first = {"op": "Relation", "path": "/s", "output": columns[:4], "children": []}
    again = {"op": "Relation", "path": "/s", "output": columns[4:], "children": []}
    fixed = {"op": "Constant", "path": "/fixed", "output": [], "children": []}
    joined = {"op": "Join", "output": columns, "conjuncts": [{"inputs": ["c0", "c4", "c2"]}], "children": [first, again, fixed]}
    project = {"op": "Project", "output": [{"id": "c9"}], "list": [{"value": {"inputs": ["c1"]}}], "children": [joined]}
    sources = [{"path": "/s"}, {"path": "/s"}, {"path": "/counted"}]
    found = _mentioned(json.dumps({"sources": sources, "plan": project}))
    assert found == {"/s": {"k", "v", "a b"}, "/counted": set()}
    assert json.loads(_listed(found)) == ["`a b`, k, v", ""]


def test_facts_that_earlier_releases_did_not_know_make_no_other_plan() -> None:
    """A window that numbers rows, and WHERE x <= 5, were another plan after the upgrade: the table was rebuilt."""

    def read(**facts: bool) -> str:
        output = [{"id": "c1", "name": "x", "type": "INT"}]
        conjunct = {"number": 3, "inputs": ["c1"], "text": "(x <= 5)", "outer": False, **facts}
        scan = {"op": "Relation", "output": output, "path": "/a", "table_id": "a", "children": []}
        kept = {"op": "Filter", "output": output, "conjuncts": [conjunct], "children": [scan]}
        return json.dumps({"sources": [{"path": "/a", "table": "a", "table_id": "a"}], "plan": kept})

    assert {fingerprint_of(read(**{fact: True})) for fact in ("bounded", "ranks", "any_order")} == {fingerprint_of(read())}


def test_a_column_named_as_a_word_of_plans_is_known_by_its_name_in_the_files() -> None:
    """A column renamed to loop, whose files hold another column under that name, was the same plan."""

    def read(stored: str) -> str:
        output = [{"id": "c1", "name": "loop", "type": "INT"}]
        scan = {"op": "Relation", "output": output, "path": "/a", "table_id": "a", "stored": {"loop": stored}, "children": []}
        return json.dumps({"sources": [{"path": "/a", "table": "a", "table_id": "a"}], "plan": scan})

    assert fingerprint_of(read("loop")) != fingerprint_of(read("b"))
