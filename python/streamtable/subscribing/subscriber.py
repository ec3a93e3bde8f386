"""SUBSCRIBE for Python: an iterator of rows, for `for` and for `async for`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import islice
from threading import Lock
from typing import final

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from streamtable.language.subscribe.ast import Subscribe
from streamtable.subscribing.cursor import ALL, Cursor, Turn
from streamtable.subscribing.rows import PYTHON

__all__ = ["Subscriber"]

_AHEAD = 1_000
"""How many rows an iterator holds."""


class _Taken(list[Row]):
    """Rows that were taken from an iterator."""

    def again(self) -> Iterator[Row]:
        return iter(self)

    def take(self, rows: Iterator[Row], count: int) -> bool:
        before = len(self)
        self.extend(islice(rows, count))
        return len(self) - before == count


@final
class Subscriber:
    """The rows of a subscription as they come; iterating waits for the next one and ends with UP TO.

    A context manager and, in either manner, an iterator. However slow its reader is, it holds a bounded number of rows.
    """

    def __init__(self, spark: SparkSession, statement: Subscribe) -> None:
        self._cursor: Cursor[Iterator[Row]] = Cursor(spark, statement, PYTHON)
        self._ahead: deque[Row] = deque()
        self._taking = Lock()
        self._reading: asyncio.Future[None] | None = None

    @property
    def schema(self) -> StructType:
        """Return the columns of the rows."""
        return self._cursor.subscription.schema

    def fetch(self, count: int | None = 1, timeout: float | None = None) -> list[Row]:
        """Return at most `count` rows, or all rows so far, as the statement FETCH does."""
        with Turn(self._taking):
            return self._fetch(ALL if count is None else count, timeout)

    def _fetch(self, wanted: int, timeout: float | None) -> list[Row]:
        rows = _Taken(self._ahead.popleft() for _ in range(min(len(self._ahead), wanted)))
        self._cursor.fetch(rows, wanted, 0 if rows and timeout is None else timeout)
        return rows

    def _read_ahead(self) -> None:
        """Wait for rows, and keep them: their reader may have given up meanwhile."""
        with Turn(self._taking):
            if not self._ahead:
                self._ahead.extend(self._fetch(_AHEAD, None))

    def close(self) -> None:
        """End the subscription; waiting readers get the end of the rows."""
        self._cursor.subscription.close()

    def __iter__(self) -> Subscriber:
        return self

    def __next__(self) -> Row:
        if not self._ahead:
            self._read_ahead()
        if not self._ahead:
            raise StopIteration
        return self._ahead.popleft()

    def __aiter__(self) -> Subscriber:
        return self

    async def __anext__(self) -> Row:
        while not self._ahead:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.ensure_future(asyncio.to_thread(self._read_ahead))
            # A thread cannot be cancelled: it goes on for the next who asks, so that there is one, however often that is tried.
            await asyncio.shield(self._reading)
            if not self._ahead and self._cursor.subscription.ended:
                raise StopAsyncIteration
        return self._ahead.popleft()

    def __enter__(self) -> Subscriber:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Subscriber:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
