"""What makes a plan another plan: its tables count by their ids, wherever they lie, unless copies share one."""

from __future__ import annotations

import json

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
