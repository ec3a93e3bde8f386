"""A commit in Python says to the JVM what it says: each value arrives at the parameter of its name."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.delta import commit as module
from streamtable.delta.commit import Committed, Metadata, Positions, RowChange, Transaction, commit

PLUMBING = Path(__file__).parents[2] / "jvm_shim/src/main/scala/streamtable/plumbing"
BRIDGE, PENDING = PLUMBING / "DeltaBridge.scala", PLUMBING / "Pending.scala"
SESSION: Any = SimpleNamespace(_jsparkSession="spark")


def parameters(file: Path, function: str) -> list[str]:
    """Return the names of the parameters of a function in Scala."""
    (found,) = re.findall(rf"def {function}\((.*?)\): ", file.read_text("utf-8"), re.DOTALL)
    return re.findall(r"(\w+):", found)


class Bridge:
    """Keeps what `prepare` and then `tell` were told, by the names of their parameters in Scala."""

    def __init__(self) -> None:
        self.told = dict[str, Any]()

    def prepare(self, *values: Any) -> SimpleNamespace:
        self.told = dict(zip(parameters(BRIDGE, "prepare"), values, strict=True))
        return SimpleNamespace(tell=self.tell, commit=lambda: "[7, 2, 1]")

    def tell(self, *values: Any) -> None:
        self.told |= zip(parameters(PENDING, "tell"), values, strict=True)


class Properties(dict[str, Any]):
    def put(self, key: str, value: Any) -> None:
        self[key] = value


@pytest.fixture
def bridge(monkeypatch: pytest.MonkeyPatch) -> Bridge:
    there = Bridge()
    monkeypatch.setattr(module, "bridge", lambda session: there)
    monkeypatch.setattr(module, "java_class", lambda session, name: Properties)
    return there


def test_each_value_arrives_at_the_parameter_of_its_name(bridge: Bridge) -> None:
    added: Any = SimpleNamespace(_jdf="rows")
    rows = RowChange(added, Positions("bitmaps", 3), replace_all=True)
    metadata = Metadata("frontier", "history", "schema", {"a": "b", "c": None})
    done = commit(SESSION, "/t", 6, Transaction("us", 5, alone=True), rows, metadata, table_id="id")
    assert done == Committed(7, rows_added=2, rows_removed=1)
    assert bridge.told == {
        "spark": "spark",
        "path": "/t",
        "readVersion": 6,
        "tableId": "id",
        "add": "rows",
        "remove": "bitmaps",
        "replaceAll": True,
        "frontier": "frontier",
        "application": "us",
        "applicationVersion": 5,
        "alone": True,
        "history": "history",
        "schema": "schema",
        "properties": {"a": "b", "c": None},
    }


def test_a_commit_without_rows_and_words_says_neither(bridge: Bridge) -> None:
    commit(SESSION, "/t", -1, Transaction("us", 0))
    said = {name: value for name, value in bridge.told.items() if value is not None}
    us = {"application": "us", "applicationVersion": 0, "alone": False}
    assert said == {"spark": "spark", "path": "/t", "readVersion": -1, "replaceAll": False, **us}


def test_the_frontier_and_the_history_are_made_when_the_files_are_written(bridge: Bridge) -> None:
    """They tell how long the refresh took: of one in full, nearly all of that is the writing of its rows."""
    metadata = Metadata(lambda: f"after {bridge.told['path']}", lambda: f"a line after {bridge.told['path']}")
    commit(SESSION, "/t", 6, Transaction("us", 5), metadata=metadata)
    assert (bridge.told["frontier"], bridge.told["history"]) == ("after /t", "a line after /t")
