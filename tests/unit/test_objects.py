"""The objects of a catalog are found among its tables; of its many stream tables no log is read for that."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from streamtable.catalog import objects
from streamtable.catalog.accepted import accepted
from streamtable.catalog.definition import FORMATTED
from streamtable.catalog.kinds import QUEUE, SUBSCRIPTION, Kind
from streamtable.delta.tables import Located, TableState

Found = tuple[Located, TableState]


def made(name: str, properties: dict[str, str], code: dict[str, str]) -> Found:
    digests = tuple(json.loads(accepted(code))) if code else ()
    located = Located(("c", "d", name), "delta", f"/{name}", digests)
    return located, TableState(f"/{name}", "id", 1, properties, "", (), None)


def stored(name: str, kind: Kind) -> Found:
    content = {"sql": name}
    return made(name, {kind.key: json.dumps(content)}, kind.code(content))


TABLES = {
    "q": stored("q", QUEUE),
    "s": stored("s", SUBSCRIPTION),
    "plain": made("plain", {}, {}),
    **{f"t{n}": made(f"t{n}", {FORMATTED: "1"}, {FORMATTED: "1"}) for n in range(200)},
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Play the catalog, and return what was looked up in it, and what was read of a log."""
    calls = list[tuple[str, str]]()

    def find_table(_: object, parts: Sequence[str]) -> Located:
        calls.append(("name", parts[-1]))
        return TABLES[parts[-1]][0]

    def state(_: object, path: str) -> TableState:
        calls.append(("log", path[1:]))
        return TABLES[path[1:]][1]

    monkeypatch.setattr(objects, "find_table", find_table)
    monkeypatch.setattr(objects, "state", state)
    monkeypatch.setattr(objects, "table_names", lambda *_: [("c", "d", name) for name in TABLES])
    return calls


def names(kind: Kind, **more: Any) -> list[str]:
    return [each.name[-1] for each in objects.every(None, kind, **more)]  # type: ignore[arg-type]


def test_no_log_of_a_stream_table_is_read_for_the_objects_of_the_catalog(asked: list[tuple[str, str]]) -> None:
    assert names(QUEUE) == ["q"]
    assert [name for what, name in asked if what == "log"] == ["q", "s", "plain"]


def test_who_knows_the_stream_tables_asks_the_catalog_for_none_of_them(asked: list[tuple[str, str]]) -> None:
    assert names(SUBSCRIPTION, besides={("c", "d", f"t{n}") for n in range(200)}) == ["s"]
    assert {name for _, name in asked} == {"q", "s", "plain"}
