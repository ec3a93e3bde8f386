"""Names of columns that stood for another column at a version that is still to be read."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.delta import column_ids

SPARK: Any = SimpleNamespace(_jsparkSession=None)


def schema(**columns: Any) -> str:
    """Return a schema: what files call each column, or with an underscore its parts."""
    return json.dumps({"type": "struct", "fields": [field(*each) for each in columns.items()]})


def field(name: str, stored: Any) -> dict[str, Any]:
    if isinstance(stored, dict):
        parts = {"type": "struct", "fields": [field(*each) for each in stored.items()]}
        return {"name": name, "type": {"type": "array", "elementType": parts}, "metadata": {column_ids.PHYSICAL: name}}
    return {"name": name, "type": "string", "metadata": {column_ids.PHYSICAL: stored} if stored else {}}


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
    ],
)
def test_a_name_that_stood_for_another_column_is_found(
    then: str, since: list[str], now: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_ids, "state", lambda *_: SimpleNamespace(version=9, schema_json=now))
    made = [SimpleNamespace(schema_json=each, operation="RENAME COLUMN") for each in (None, *since)]
    monkeypatch.setattr(column_ids, "commits", lambda *_, **__: made)
    monkeypatch.setattr(column_ids, "bridge", lambda _: SimpleNamespace(columnsAt=lambda *_: then))
    monkeypatch.setattr(column_ids, "translated", lambda _: nullcontext())
    names = column_ids.NamesInFiles(SPARK, "/t", ["v", "w"])
    assert (names.other(3), names.other(9)) == (found, None)


def test_a_name_that_comes_again_after_a_look_at_a_table_without_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    log = {1: schema(v="c1"), 2: schema(w="c9"), 3: schema(v="c2")}
    latest = 2

    def commits(_: object, path: str, after: int, upto: int, complete: bool) -> list[Any]:
        return [SimpleNamespace(schema_json=log[n], operation="x") for n in log if after < n <= upto]

    monkeypatch.setattr(column_ids, "state", lambda *_: SimpleNamespace(version=latest, schema_json=log[latest]))
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

    monkeypatch.setattr(column_ids, "state", lambda *_: SimpleNamespace(version=latest, schema_json=schema(v="c1")))
    monkeypatch.setattr(column_ids, "commits", commits)  # and no columns of a version: the first commit keeps them
    names = column_ids.NamesInFiles(SPARK, "/t", ["v"])
    assert [names.other(since) for since in (3, 4, 8)] == [None] * 3
    latest = 12
    assert [names.other(since) for since in (8, 2)] == [None] * 2
    assert asked == [(3, 9), (9, 12), (2, 12)]
