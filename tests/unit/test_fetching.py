"""FETCH while the storage fails, or its reader is interrupted: no row is lost, and none comes twice. The subscription is played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from streamtable.delta.tables import Located
from streamtable.errors import SourceUnavailable, StatementCancelled, StorageFailed
from streamtable.language.names import Name
from streamtable.language.subscribe.ast import Subscribe
from streamtable.subscribing import cursor, inputs, subscription
from streamtable.subscribing.cursor import Cursor
from streamtable.subscribing.inputs import Input, Inputs
from streamtable.subscribing.subscriber import Subscriber, _Taken
from streamtable.subscribing.subscription import Subscription
from streamtable.subscribing.times import Times

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
        self._failed: BaseException | None = None
        self.ended = False

    def next(self) -> Any:
        if self._failed:
            raise self._failed
        if isinstance(found := next(self._results, None), BaseException):
            raise found
        return found

    def fail(self, error: BaseException, untouched: bool) -> None:
        self._failed = None if untouched else error
        raise error


def cursor_of(monkeypatch: pytest.MonkeyPatch, *results: Any) -> Cursor[Any]:
    monkeypatch.setattr(cursor, "Subscription", lambda *of: Played(*results))
    return Cursor(cast("Any", None), cast("Any", None), cast("Any", None))


@pytest.mark.parametrize("error", [AWAY, KeyboardInterrupt(), SourceUnavailable("gone")])
def test_a_fetch_lost_the_rows_that_it_had_taken_when_it_failed(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = cursor_of(monkeypatch, iter([1, 2]), error, iter([3]))
    with pytest.raises(type(error)):
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


def subscription_of(monkeypatch: pytest.MonkeyPatch, up_to: int | None, *commits: Any) -> Subscription[Any]:
    """Return a subscription to a table with a commit for each time. A commit that is an error is raised once, as the log is read."""
    failing = dict(enumerate(commits))

    def steps(after: int, latest: int) -> Iterator[int]:
        for time in range(after + 1, latest + 1):
            if isinstance(error := failing.pop(time, None), BaseException):
                raise error
            yield time

    asked = SimpleNamespace(
        times=Times(1), first=lambda _: 0, latest=lambda: (len(commits) - 1,), away=lambda: None, opened=(), type=None
    )
    relation = SimpleNamespace(schema=StructType(), inputs=asked, steps=steps)
    monkeypatch.setattr(subscription, "open_feed", lambda *of: SimpleNamespace(relation=relation))
    monkeypatch.setattr(subscription, "close_feed", lambda feed: None)
    monkeypatch.setattr(Subscription, "_changes", lambda self, after, upto, several: iter([upto]))
    wanted = Subscribe(Name(("t",)), snapshot=False, up_to=up_to)
    return Subscription(cast("Any", None), wanted, cast("Any", None))


@pytest.mark.parametrize("up_to", [None, 4])
@pytest.mark.parametrize("error", [AWAY, KeyboardInterrupt()])
def test_a_cursor_ended_when_the_log_could_not_be_read_for_a_moment(
    up_to: int | None, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = subscription_of(monkeypatch, up_to, 0, 1, error, 3)
    assert list(reader.next() or ()) == [1]
    with pytest.raises(type(error)):
        reader.next()
    assert [list(reader.next() or ()) for _ in range(3)] == [[2], [3], []]
    assert reader.ended == (up_to is not None)


def test_a_cursor_ended_with_an_error_of_the_storage_that_was_ours_already(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, fails = subscription_of(monkeypatch, None, 0, 1), [AWAY]

    def changes(self: object, after: int, upto: int, several: bool) -> Any:
        if fails:
            raise fails.pop()
        return iter([upto])

    monkeypatch.setattr(Subscription, "_changes", changes)
    with pytest.raises(StorageFailed):
        reader.next()
    assert list(reader.next() or ()) == [1]


@pytest.mark.parametrize("before", [0, 1], ids=["untouched", "partly_taken"])
def test_a_reader_that_was_interrupted_while_rows_came_did_not_get_the_rest(before: int, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = [KeyboardInterrupt()]

    def partition(first: int) -> Iterator[int]:
        for n in range(first, first + 4):
            if n == first + before and interrupts:
                raise interrupts.pop()
            yield n

    rows = subscription_of(monkeypatch, None, 0, 1, 2)
    monkeypatch.setattr(Subscription, "_changes", lambda self, after, upto, several: partition(10 * upto))
    monkeypatch.setattr(cursor, "Subscription", lambda *of: rows)
    subscriber = Subscriber(cast("Any", None), cast("Any", None))
    with pytest.raises(KeyboardInterrupt):
        subscriber.fetch(100, 0)
    if before:  # computed once more, they might come in another order
        assert list[Any](subscriber.fetch(1, 0)) == [10]
        with pytest.raises(StatementCancelled, match="SUBSCRIBE TO `t` .*the subscription ends"):
            subscriber.fetch(100, 0)
    else:
        assert list[Any](subscriber.fetch(100, 0)) == [10, 11, 12, 13, 20, 21, 22, 23]


@pytest.mark.parametrize("known", [True, False])
def test_a_cursor_on_a_table_of_a_dropped_schema_said_that_its_storage_is_away(
    known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = f"file:{tmp_path}/shop.db/t"  # DROP SCHEMA takes the folder around the table along
    located = Located(("c", "shop", "t"), "delta", gone) if known else Located(("c", "shop", "t"), "none", "")
    monkeypatch.setattr(inputs, "find_table", lambda *of: located)
    monkeypatch.setattr(inputs, "versions", lambda *of: [None])
    asked = Inputs(cast("Any", None), [Input(gone, ("c", "shop", "t"), "id", "")], lambda *of: None)
    with pytest.raises(StorageFailed if known else SourceUnavailable):
        asked.latest()


def test_storage_is_away_where_the_catalog_does_not_answer_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*of: object) -> Located:
        raise PySparkException("no metastore")

    monkeypatch.setattr(inputs, "find_table", fails)
    asked = Inputs(cast("Any", None), [Input(f"file:{tmp_path}/shop.db/t", ("shop", "t"), "id", "")], lambda *of: None)
    assert asked.away() is not None
