"""`%%sql name` keeps the answer of a cell; SQL may stand in its first line as well. A fake answers for Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.errors import InvalidStatement
from streamtable.hosts import notebook


class Spark:
    """Keeps the statements; fails for those with `nobody`."""

    def __init__(self) -> None:
        self.frames = list[SimpleNamespace]()

    def sql(self, text: str) -> SimpleNamespace:
        if "nobody" in text:
            raise ValueError(text)
        self.frames.append(SimpleNamespace(text=text, columns=["a"], take=lambda n: [(1,)]))
        return self.frames[-1]

    @property
    def asked(self) -> list[str]:
        return [each.text for each in self.frames]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    @contextmanager
    def watched(*_: object) -> Iterator[None]:
        yield

    monkeypatch.setattr(notebook, "watched", watched)
    monkeypatch.setattr(notebook._Place, "show", lambda *_: None)
    return {"spark": Spark()}


def sql(names: dict[str, Any], line: str, cell: str | None = None) -> None:
    magics = list[Callable[..., None]]()
    shell = SimpleNamespace(user_ns=names, register_magic_function=lambda magic, kind: magics.append(magic))
    notebook.load_ipython_extension(shell)
    magics[0](line, cell)


def test_the_last_answer_is_kept_under_the_name(names: dict[str, Any]) -> None:
    sql(names, " orders ", "USE shop;\nSELECT * FROM orders")
    assert names["spark"].asked == ["USE shop", "SELECT * FROM orders"]
    assert names["orders"] is names["spark"].frames[1]


@pytest.mark.parametrize(
    ("line", "cell", "statements"),
    [
        ("SELECT", "1", ["SELECT\n1"]),
        ("begin", "SELECT 1;\nEND", ["begin\nSELECT 1;\nEND"]),
        ("SELECT 1;", "SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("", "SELECT 2", ["SELECT 2"]),
        ("CACHE", "TABLE t", ["CACHE\nTABLE t"]),
        ("commit", None, ["commit"]),  # of %sql, all is SQL
    ],
)
def test_sql_in_the_first_line_stays_sql(names: dict[str, Any], line: str, cell: str | None, statements: list[str]) -> None:
    sql(names, line, cell)
    assert names["spark"].asked == statements and names.keys() == {"spark"}


@pytest.mark.parametrize("name", ["spark", "class", "None"])
def test_a_name_that_no_variable_can_have_is_refused(names: dict[str, Any], name: str) -> None:
    before = names["spark"]
    with pytest.raises(InvalidStatement, match=f"the answer cannot be kept as {name}") as refused:
        sql(names, name, "SELECT 1")
    assert "the answer cannot be kept" in vars(refused.value)["_render_traceback_"]()[0]  # a cell shows this, and no trace
    assert names == {"spark": before} and before.asked == []


def test_a_cell_that_fails_keeps_nothing(names: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="nobody"):
        sql(names, "orders", "SELECT 1; SELECT * FROM nobody")
    assert "orders" not in names
