"""FETCH while the storage fails: no row is lost, and none comes twice. The subscription is played."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import pytest

from streamtable.errors import StorageFailed
from streamtable.subscribing import cursor
from streamtable.subscribing.cursor import Cursor
from streamtable.subscribing.subscriber import _Taken

AWAY = StorageFailed("the storage failed: /mounted: No such file or directory")


class Skipping:
    """Rows of which the storage does not give one, and gives those behind it: an iterator of Java goes on after an error."""

    def __init__(self, *rows: int | Exception) -> None:
        self._rows = iter(rows)

    def __iter__(self) -> Skipping:
        return self

    def __next__(self) -> int:
        if isinstance(found := next(self._rows), Exception):
            raise found
        return found


class Played:
    """Give some results one after the other, and raise those that are errors. It ends with an error while rows are taken."""

    def __init__(self, *results: Any) -> None:
        self._results = iter(results)
        self._failed: Exception | None = None
        self.ended = False

    def next(self) -> Any:
        if self._failed:
            raise self._failed
        if isinstance(found := next(self._results, None), Exception):
            raise found
        return found

    def fail(self, error: Exception, untouched: bool) -> None:
        self._failed = None if untouched else error
        raise error


def cursor_of(monkeypatch: pytest.MonkeyPatch, *results: Any) -> Cursor[Any]:
    monkeypatch.setattr(cursor, "Subscription", lambda *of: Played(*results))
    return Cursor(cast("Any", None), cast("Any", None), cast("Any", None))


def test_a_fetch_lost_the_rows_that_it_had_taken_when_the_storage_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = cursor_of(monkeypatch, iter([1, 2]), AWAY, iter([3]))
    with pytest.raises(StorageFailed):
        reader.fetch(_Taken(), 10, 0)
    rows = cast("list[Any]", _Taken())
    reader.fetch(cast("Any", rows), 10, 0)
    assert rows == [1, 2, 3]


def test_a_cursor_went_on_behind_rows_that_the_storage_did_not_give(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = cursor_of(monkeypatch, Skipping(1, AWAY, 3), iter([4]))
    rows = list[int]()
    for _ in range(4):
        taken = _Taken()
        with suppress(StorageFailed):
            reader.fetch(taken, 1, 0)
            rows += cast("Any", taken)
    assert rows == [1]
