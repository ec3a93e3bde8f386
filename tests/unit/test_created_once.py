"""What CREATE holds, and how often it begins, if it fails half-way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamtable.definitions import create as module
from streamtable.definitions.create import create
from streamtable.delta.tables import Located
from streamtable.errors import InvalidQuery, StreamTableError
from streamtable.language.names import Name, Query
from streamtable.language.stream_table.ast import CreateStreamTable
from streamtable.query import analyse as analysis
from streamtable.query.analyse import analyse

SPARK = cast(Any, SimpleNamespace())
STATEMENT = CreateStreamTable(Name(("st",)), Query("SELECT 1 AS a"))


def test_a_race_for_the_name_is_run_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    name, begun = ("spark_catalog", "shop", "st"), list[str]()

    def looked(*_: object) -> None:
        begun.append("looked")
        raise StreamTableError("another session was first")

    definition = SimpleNamespace(statement=SimpleNamespace(schedule=None))
    monkeypatch.setattr(module, "find", lambda *_: (Located(name, "none", ""), None))
    monkeypatch.setattr(module, "find_table", lambda *_: Located(name, "delta", "file:/st"))
    monkeypatch.setattr(module, "analysed_for", lambda *_: (definition, None))
    monkeypatch.setattr(module, "vacant", looked)
    monkeypatch.setattr(module, "release", lambda analysed: begun.append("released"))
    with pytest.raises(StreamTableError, match="another session was first"):
        create(SPARK, STATEMENT)
    assert begun == ["looked", "looked", "released", "released"]


@pytest.mark.parametrize(("error", "raised"), [(KeyError("op"), KeyError), (RecursionError(), InvalidQuery)])
def test_an_analysis_that_fails_holds_nothing(monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]) -> None:
    freed = list[str]()

    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(analysis, "java_class", lambda session, name: SimpleNamespace(release=freed.append))
    monkeypatch.setattr(analysis, "give_back", lambda session: freed.append("session"))
    monkeypatch.setattr(analysis, "_pinned", fails)
    with pytest.raises(raised):
        analyse(SPARK, STATEMENT.query)
    assert len(freed) == 2 and freed[1] == "session"
