"""One open relation for all subscribers to the same object. Its changes are computed once, for the first who asks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import RLock
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from streamtable.errors import HistoryLost, InvalidStatement
from streamtable.language.names import UNREAD, Name, Query
from streamtable.query.checks import find_source
from streamtable.sql.builder import qualified
from streamtable.subscribing.output import Output
from streamtable.subscribing.query import QueryRelation
from streamtable.subscribing.relation import Relation
from streamtable.subscribing.rows import ChangeRows, RowFormat
from streamtable.subscribing.table import TableRelation

__all__ = ["Feed", "close_feed", "columns_of", "meaning", "open_feed", "opened"]

R = TypeVar("R")

_KEPT = 8
"""The number of changes that are kept for slower subscribers."""

# Python's locks may be held here while the JVM works: the SQL of a subscription is Spark's own, and does not call back.
_feeds: dict[object, Feed] = {}
_registry = RLock()


class Feed:
    """A relation and its latest changes, in the requested forms."""

    def __init__(self, key: object, relation: Relation) -> None:
        self.key, self.relation = key, relation
        self.subscribers = 0
        self._lock = RLock()
        self._changes: OrderedDict[object, ChangeRows[Any]] = OrderedDict()

    def snapshot(self, time: int, output: Output, form: RowFormat[R]) -> ChangeRows[R]:
        """Return the contents at a time."""
        return ChangeRows(output.frame(self.relation.snapshot(time), several=False), form, shared=False)

    def changes(self, after: int, upto: int, several: bool, output: Output, form: RowFormat[R]) -> ChangeRows[R]:
        """Return the changes of (after, upto], computed for the first who asks."""
        key = (after, upto, output.modifier, output.progress, form)
        with self._lock:
            if key not in self._changes:
                expected = sum(step.events for step in self.relation.inputs.commits(after, upto, complete=False))
                with self.lent(after, upto) as frame:
                    self._changes[key] = ChangeRows(output.frame(frame, several), form, shared=True, expected=expected)
                while len(self._changes) > _KEPT:
                    self._changes.popitem(last=False)[1].forget()
            self._changes.move_to_end(key)
            return self._changes[key]

    @contextmanager
    def lent(self, after: int, upto: int) -> Iterator[DataFrame]:
        """Lend the changes of (after, upto] to one reader at a time, because the relation's names of frames would collide."""
        with self._lock, self.relation.changes(after, upto) as frame:
            yield frame

    def close(self) -> None:
        """Free the kept changes."""
        with self._lock:
            for rows in self._changes.values():
                rows.forget()
            self._changes.clear()
            self.relation.close()


def open_feed(spark: SparkSession, wanted: Name | Query) -> Feed:
    """Return the feed of a table, a view or a query, shared by all its readers; `close_feed` gives it back."""
    relation = _open(spark, wanted)
    key = (id(spark.sparkContext), relation.identity)
    if known := _feeds.get(key):
        with suppress(HistoryLost):  # an older copy may have taken the place of a table since it looked
            known.relation.inputs.latest()
    with _registry:
        known = _feeds.get(key)
        feed = Feed(key, relation) if known is None or known.relation.inputs.overtaken else known
        _feeds[key] = feed
        feed.subscribers += 1
    if feed.relation is not relation:
        relation.close()
    return feed


def close_feed(feed: Feed) -> None:
    """Leave a feed; the last one closes it."""
    with _registry:
        feed.subscribers -= 1
        if feed.subscribers > 0:
            return
        if _feeds.get(feed.key) is feed:
            del _feeds[feed.key]
    feed.close()


@contextmanager
def opened(spark: SparkSession, wanted: Name | Query) -> Iterator[Feed]:
    """Lend a feed for one question."""
    feed = open_feed(spark, wanted)
    try:
        yield feed
    finally:
        close_feed(feed)


def columns_of(spark: SparkSession, wanted: Name | Query, follows: bool = False) -> str:
    """Return the current columns of the tables of a view or a query, and its texts, by which `meaning` restores its meaning later.

    A table needs none: its columns are found by their names. A relation that `follows` its tables keeps its texts alone.
    """
    relation = _open(spark, wanted)
    relation.close()
    return relation.read_as(follows) if isinstance(relation, QueryRelation) else UNREAD


def meaning(wanted: Name | Query, columns: str) -> Name | Query:
    """Return a view or a query with the meaning that it had when `columns` were the columns of its tables."""
    if columns == UNREAD:
        return wanted
    return Query(f"TABLE {wanted}", columns=columns) if isinstance(wanted, Name) else replace(wanted, columns=columns)


def _open(spark: SparkSession, wanted: Name | Query) -> Relation:
    if isinstance(wanted, Query):
        return QueryRelation(spark, wanted)
    located = find_source(spark, wanted)
    match located.kind:
        case "delta":
            return TableRelation(spark, located)
        case "view":
            return QueryRelation(spark, Query(f"TABLE {qualified(located.name)}"))
        case "none":
            return QueryRelation(spark, Query(f"TABLE {wanted}"))  # Spark says best what it does not find
        case _:
            raise InvalidStatement(
                f"{'.'.join(located.name)} is no Delta table, so it has no history",
                hint="subscribe to a Delta table, a stream table, a view or a query over them",
            )
