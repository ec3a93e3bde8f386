"""Names and types of columns that were others at a version that is still to be read."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.delta import column_ids
from streamtable.delta.tables import TableState
from streamtable.delta.widening import widens

SPARK: Any = SimpleNamespace(_jsparkSession=None)


def schema(**columns: Any) -> str:
    """Return a schema: what files call each column, or its parts; a dictionary with a type, that of a column without mapping."""
    return json.dumps({"type": "struct", "fields": [field(*each) for each in columns.items()]})


def field(name: str, stored: Any) -> dict[str, Any]:
    if isinstance(stored, dict) and "type" in stored:
        return {"name": name, "nullable": True, "metadata": {}, **stored}
    if isinstance(stored, dict):
        parts = {"type": "struct", "fields": [field(*each) for each in stored.items()]}
        kind = {"type": "array", "elementType": parts, "containsNull": True}
        return {"name": name, "type": kind, "nullable": True, "metadata": {column_ids.PHYSICAL: name}}
    return {"name": name, "type": "string", "nullable": True, "metadata": {column_ids.PHYSICAL: stored} if stored else {}}


def typed(kind: Any, nullable: bool = True) -> str:
    return schema(v={"type": kind, "nullable": nullable})


def array(kind: str, contains_null: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": kind, "containsNull": contains_null}


@pytest.fixture(autouse=True)
def _nothing_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_ids, "_clean", {})


def at(version: int, schema_json: str, table_id: str = "id", commit: str | None = None) -> TableState:
    """Return the state of a table."""
    return TableState("/t", table_id, version, {}, schema_json, (), None, commit=commit)


@pytest.mark.parametrize(
    ("then", "since", "now", "found"),
    [
        (schema(v="c1"), [schema(), schema(v="c2")], schema(v="c2"), "v"),
        (schema(V="c1"), [schema(v="c2")], schema(v="c2"), "v"),
        (schema(v="c1", w="c2"), [schema(x="c1", w="c2"), schema(w="c1", v="c2")], schema(w="c1", v="c2"), "w"),
        (schema(v="c1"), [schema(v="c2"), schema(v="c1")], schema(v="c1"), "v"),  # it was another one in between
        (schema(v="c1", w="c2"), [schema(v="c1", x="c2")], schema(v="c1", x="c2"), None),  # renamed
        (schema(v="c1", w="c2"), [schema(v="c1")], schema(v="c1"), None),
        (schema(v=None), [schema(v="v")], schema(v="v"), None),  # column mapping was turned on
        (schema(v="c1", other="c2"), [schema(v="c1", other="c3")], schema(v="c1", other="c3"), None),  # not read
        (schema(v={"a": "c1"}), [schema(v={"a": "c2"})], schema(v={"a": "c2"}), "v.elementType.a"),
        (schema(v="c1"), [], schema(v="c1"), None),
        (schema(v=None), [schema(), schema(v=None)], schema(v=None), None),  # Delta drops no column without column mapping
        (schema(v="c1"), [schema(v=None)], schema(v=None), "v"),  # column mapping was removed, which wrote the files of now again
        (schema(v="v"), [schema(v=None)], schema(v=None), None),
        (typed("integer"), [typed("short")], typed("short"), "v"),
        (typed("integer"), [typed("long")], typed("long"), None),
        (typed("integer"), [typed("long"), typed("integer")], typed("integer"), "v"),  # it was wider in between
        (typed("decimal(10,2)"), [typed("long")], typed("long"), "v"),
        (typed("decimal(10,2)"), [typed("decimal(10,1)")], typed("decimal(10,1)"), "v"),
        (typed("integer"), [typed("string")], typed("string"), "v"),
        (typed("integer"), [typed("integer", nullable=False)], typed("integer", nullable=False), "v"),
        (typed("integer", nullable=False), [typed("integer")], typed("integer"), None),
        (typed(array("integer")), [typed(array("short"))], typed(array("short")), "v.elementType"),
        (typed(array("integer")), [typed(array("long"))], typed(array("long")), None),
        (typed(array("integer")), [typed("integer")], typed("integer"), "v"),
        (typed(array("integer")), [typed(array("integer", False))], typed(array("integer", False)), "v.elementType"),
    ],
)
def test_a_name_that_stood_for_another_column_is_found(
    then: str, since: list[str], now: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_ids, "state", lambda *_: at(9, now))
    made = [SimpleNamespace(schema_json=each, operation="RENAME COLUMN") for each in (None, *since)]
    monkeypatch.setattr(column_ids, "commits", lambda *_, **__: made)
    monkeypatch.setattr(column_ids, "bridge", lambda _: SimpleNamespace(columnsAt=lambda *_: then))
    monkeypatch.setattr(column_ids, "translated", lambda _: nullcontext())
    names = column_ids.NamesInFiles(SPARK, "/t", ["v", "w"])
    assert (names.other(3), names.other(9)) == (found, None)


@pytest.mark.parametrize(
    ("before", "now", "wider"),
    [
        ("byte", "short", True),
        ("short", "byte", False),
        ("long", "double", False),
        ("integer", "float", False),
        ("float", "double", True),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("byte", "decimal(10,0)", True),
        ("byte", "decimal(9,0)", False),
        ("integer", "decimal(12,2)", True),
        ("integer", "decimal(11,2)", False),
        ("long", "decimal(20,0)", True),
        ("long", "decimal(19,0)", False),
        ("decimal(10,2)", "decimal(12,4)", True),
        ("decimal(10,2)", "decimal(12,5)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("double", "decimal(38,18)", False),
        ("string", "string", True),
    ],
)
def test_a_type_widens_as_delta_lets_it(before: str, now: str, wider: bool) -> None:
    assert widens(before, now) == wider


def test_a_name_that_comes_again_after_a_look_at_a_table_without_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    log = {1: schema(v="c1"), 2: schema(w="c9"), 3: schema(v="c2")}
    latest = 2

    def commits(_: object, path: str, after: int, upto: int, complete: bool) -> list[Any]:
        return [SimpleNamespace(schema_json=log[n], operation="x") for n in log if after < n <= upto]

    monkeypatch.setattr(column_ids, "state", lambda *_: at(latest, log[latest]))
    monkeypatch.setattr(column_ids, "commits", commits)
    monkeypatch.setattr(column_ids, "translated", lambda _: nullcontext())
    monkeypatch.setattr(column_ids, "bridge", lambda _: SimpleNamespace(columnsAt=lambda _, path, version: log[version]))
    names = column_ids.NamesInFiles(SPARK, "/t", ["v"])
    assert names.other(1) is None
    latest = 3
    assert names.other(1) == "v"


def test_only_commits_that_were_not_looked_at_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, latest = list[tuple[int, int]](), 9

    def commits(_: object, path: str, after: int, upto: int, complete: bool) -> list[Any]:
        asked.append((after, upto))
        return [SimpleNamespace(schema_json=schema(v="c1"), operation="SET TBLPROPERTIES")]

    monkeypatch.setattr(column_ids, "state", lambda *_: at(latest, schema(v="c1")))
    monkeypatch.setattr(column_ids, "commits", commits)  # and no columns of a version: the first commit keeps them
    names = column_ids.NamesInFiles(SPARK, "/t", ["v"])
    assert [names.other(since) for since in (3, 4, 8)] == [None] * 3
    latest = 12
    assert [names.other(since) for since in (8, 2)] == [None] * 2
    assert asked == [(3, 9), (9, 12), (2, 12)]


@pytest.mark.parametrize("another", [at(9, schema(v="c1"), table_id="made again"), at(9, schema(v="c1"), commit="of a copy")])
def test_what_was_seen_of_a_table_is_not_said_of_another_one_in_its_place(
    another: TableState, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_before, now = schema(v="c1"), at(9, schema(v="c1"), commit="first")
    monkeypatch.setattr(column_ids, "state", lambda *_: now)
    monkeypatch.setattr(column_ids, "commits", lambda *_, **__: [SimpleNamespace(schema_json=of_before, operation="CLUSTER BY")])
    assert column_ids.NamesInFiles(SPARK, "/t", ["v"]).other(3) is None
    of_before, now = schema(v="c2"), another
    assert column_ids.NamesInFiles(SPARK, "/t", ["v"]).other(3) == "v"
