"""The index of stream tables: what is read again at each look, and what is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from streamtable.catalog import index
from streamtable.catalog.index import FORGET_AFTER, Index
from streamtable.delta.tables import Version
from streamtable.errors import InternalError, SourceUnavailable
from streamtable.language.names import Name

FREE = "", -1
"""A name that the catalog listed, and that has been dropped since."""


class Catalog:
    """Tables by name: a path and a version, no path for one that is no stream table."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **tables: tuple[str, int]) -> None:
        self.tables = tables
        self.clock = 1000.0
        self.read: list[str] = []
        self.stays = dict[str, Version]()
        monkeypatch.setattr(index, "table_names", lambda _: [("db", name) for name in self.tables])
        monkeypatch.setattr(index, "find", self.find)
        monkeypatch.setattr("streamtable.delta.latest.versions_or_why", self.versions)
        monkeypatch.setattr("streamtable.catalog.index.monotonic", lambda: self.clock)

    def find(self, _: object, name: Name) -> tuple[Any, Any]:
        self.read.append(name.parts[-1])
        found = self.tables[name.parts[-1]]
        return SimpleNamespace(kind="none" if found == FREE else "delta"), self._entry(*found)

    def _entry(self, path: str, version: int) -> Any:
        if path == "broken":
            raise InternalError("the definition makes no sense")
        if path == "away":
            raise SourceUnavailable("there is no Delta table any more")
        return SimpleNamespace(path=path, state=SimpleNamespace(version=version, latest=Version(path, version))) if path else None

    def versions(self, _: object, paths: Sequence[str]) -> tuple[Version | None, ...]:
        found = {path: Version(path, version) for path, version in self.tables.values()} | self.stays
        return tuple(found.get(path) for path in paths)

    def poll(self, index: Index) -> tuple[list[str], list[str]]:
        """Return the paths that were found, and the names that were read for it."""
        self.read.clear()
        return sorted(index.poll()), sorted(self.read)


def test_only_what_changed_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(monkeypatch, a=("/a", 1), b=("/b", 1), plain=("", 0))
    index = Index(None)  # type: ignore[arg-type]
    assert catalog.poll(index) == (["/a", "/b"], ["a", "b", "plain"])
    assert catalog.poll(index) == (["/a", "/b"], [])
    catalog.tables["b"] = ("/b", 2)
    assert catalog.poll(index) == (["/a", "/b"], ["b"])
    assert index.poll()["/b"].state.version == 2


def test_tables_come_go_and_are_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(monkeypatch, a=("/a", 1), b=("/b", 1))
    index = Index(None)  # type: ignore[arg-type]
    catalog.poll(index)
    catalog.tables = {"a": ("/elsewhere", 0), "c": ("/b", 1)}
    assert catalog.poll(index) == (["/b", "/elsewhere"], ["a", "c"])
    catalog.tables = {}
    assert catalog.poll(index) == ([], [])


def test_new_names_are_looked_for_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(monkeypatch, a=("/a", 1))
    index = Index(None)  # type: ignore[arg-type]
    assert list(index.poll(every=5)) == ["/a"]
    catalog.tables = {"a": ("/a", 2), "b": ("/b", 1)}
    catalog.clock += 4.9
    assert {path: entry.state.version for path, entry in index.poll(every=5).items()} == {"/a": 2}
    catalog.clock += 0.1
    assert sorted(index.poll(every=5)) == ["/a", "/b"]


def test_a_name_that_becomes_a_stream_table_s_is_found_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(monkeypatch, plain=("", 0))
    index = Index(None)  # type: ignore[arg-type]
    catalog.poll(index)
    catalog.tables["plain"] = ("/plain", 0)
    assert catalog.poll(index) == ([], [])
    catalog.clock += FORGET_AFTER
    assert catalog.poll(index) == (["/plain"], ["plain"])


def test_a_definition_that_cannot_be_read_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = Catalog(monkeypatch, bad=("broken", 1), good=("/good", 1))
    index = Index(None)  # type: ignore[arg-type]
    assert catalog.poll(index) == (["/good"], ["bad", "good"])
    assert catalog.poll(index) == (["/good"], ["bad"]), "what was wrong may be over"
    told = [record.getMessage() for record in caplog.records]
    assert [text.partition(": ")[0] for text in told] == ["db.bad cannot be read and is left out"], "once"
    catalog.tables["bad"] = ("/bad", 1)
    assert catalog.poll(index) == (["/bad", "/good"], ["bad"])


def test_what_was_known_of_a_table_is_there_while_it_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(monkeypatch, a=("/a", 1), b=("broken", 1))
    index = Index(None)  # type: ignore[arg-type]
    catalog.poll(index)
    assert index.lost == {}, "of a table that was never read nothing is known"
    catalog.tables["a"] = ("broken", 2)
    for _ in range(2):
        assert catalog.poll(index)[0] == []
        [(path, (entry, why))] = index.lost.items()
        assert (path, entry.state.version) == ("/a", 1) and "the definition makes no sense" in why
    catalog.tables["a"] = ("/a", 3)
    assert catalog.poll(index)[0] == ["/a"] and index.lost == {}
    catalog.tables["a"] = ("broken", 4)
    catalog.poll(index)
    catalog.tables = {}
    assert catalog.poll(index) == ([], []) and index.lost == {}


def test_a_stream_table_whose_disk_was_away_for_a_moment_is_there_at_the_next_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for an ordinary table, and no scheduler and no write refreshed it for a minute."""
    catalog = Catalog(monkeypatch, a=("/a", 1), plain=("away", 0))
    index = Index(None)  # type: ignore[arg-type]
    assert catalog.poll(index) == (["/a"], ["a", "plain"])
    catalog.tables["a"] = ("away", 1)
    for _ in range(2):
        assert catalog.poll(index) == ([], ["a"])
        [(path, (_, why))] = index.lost.items()
        assert (path, "there is no Delta table" in why) == ("/a", True), "a write names it"
    catalog.tables["a"] = ("/a", 1)
    assert catalog.poll(index) == (["/a"], ["a"])
    catalog.tables["a"] = ("", 0)
    for again in (["a"], []):
        assert catalog.poll(index) == ([], again) and index.lost == {}, "an ordinary table took the name"


def test_a_table_whose_name_leads_elsewhere_is_found_there_once_its_old_place_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """ALTER TABLE ... SET LOCATION by another process, with a copy of the folder, leaves the old log as it was."""
    catalog = Catalog(monkeypatch, a=("/old", 1), b=("/b", 1))
    catalog.poll(index := Index(None))  # type: ignore[arg-type]
    catalog.stays = {"/old": Version("/old", 1)}
    catalog.tables["a"] = ("/new", 1)
    assert catalog.poll(index) == (["/b", "/old"], []), "nothing tells of it"
    index.forget("/old")
    assert catalog.poll(index) == (["/b", "/new"], ["a"])


def test_a_table_that_is_dropped_and_made_again_is_there_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look between DROP and CREATE took the name for that of an ordinary table, and nobody refreshed the new one for a minute."""
    catalog = Catalog(monkeypatch, a=("/a", 1))
    index = Index(None)  # type: ignore[arg-type]
    assert list(index.poll(every=5)) == ["/a"]
    catalog.tables["a"] = FREE
    assert list(index.poll(every=5)) == []
    catalog.tables["a"] = ("/a", 0)
    assert list(index.poll(every=5)) == ["/a"]
