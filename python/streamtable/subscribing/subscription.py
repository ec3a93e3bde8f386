"""One subscriber's way through a feed: from AS OF to UP TO, with or without the initial contents."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, NoReturn, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from streamtable.errors import HistoryLost, StatementCancelled, StorageFailed
from streamtable.jvm.failures import cancelled, interrupted, missing_file
from streamtable.jvm.gateway import java_class
from streamtable.jvm.storage import storage_failed
from streamtable.language.subscribe.ast import Subscribe
from streamtable.language.write import to_sql
from streamtable.settings.session import SUBSCRIBE_POLL, read_setting
from streamtable.subscribing.feed import close_feed, open_feed, opened
from streamtable.subscribing.output import Output
from streamtable.subscribing.rows import ChangeRows, RowFormat
from streamtable.subscribing.times import Versions

__all__ = ["Subscription", "schema_of"]

R = TypeVar("R")

_LOOK_SECONDS = 0.1
"""Seconds after which a waiting statement checks whether it was cancelled."""

_GO_ON = "to go on FETCH again; nothing was taken, and nothing is lost"

_log = logging.getLogger(__name__)


def schema_of(spark: SparkSession, statement: Subscribe) -> StructType:
    """Return the columns of a subscription without beginning it. Raises its errors."""
    with opened(spark, statement.relation) as feed:
        relation = feed.relation
        return Output(relation.schema, relation.inputs.times.type, statement.modifier, statement.progress).schema


class Subscription(Generic[R]):
    """A SUBSCRIBE. It holds its position and the rows being read, however far behind its reader is.

    It has `begun` when AS OF is reached, and `ended` when no more rows will come.
    """

    def __init__(self, spark: SparkSession, statement: Subscribe, form: RowFormat[R]) -> None:
        self._spark, self._statement, self._form = spark, statement, form
        self._feed = open_feed(spark, statement.relation)
        try:
            relation = self._feed.relation
            self._inputs = relation.inputs
            self._output = Output(relation.schema, self._inputs.times.type, statement.modifier, statement.progress)
            self._as_of = self._inputs.first(statement)
            if statement.up_to == self._as_of:
                _log.warning("AS OF and UP TO are both %s: the subscription ends without rows", self._as_of)
            self._known = self._inputs.latest()
        except BaseException:
            close_feed(self._feed)
            raise
        self._position: int | None = None  # the time up to which all steps were given
        self._steps = self._run()
        self._step: Callable[[], R] | None = None  # what gives the next rows, or gave the last ones
        self._again = False  # whether that has still to give them
        self._failed: Exception | None = None
        self._trouble: StorageFailed | None = None  # of the last look for news, or of reading what came
        self.begun = self.ended = self.closed = False

    @property
    def schema(self) -> StructType:
        """Return the columns of the rows."""
        return self._output.schema

    def next(self) -> R | None:
        """Return the next rows, or None if there are none now; after `ended` there will be none.

        An error that ended the subscription is raised at each call. Raises StorageFailed where nothing can be read now.
        """
        if self._failed is not None:
            raise self._failed
        try:
            if not self._again:
                self._step = next(self._steps)
                self._again = self._step is not None
            rows = self._step() if self._step else None
        except StopIteration:
            self.ended = True
            return None
        except Exception as error:
            self.fail(error, untouched=self._again)
        except BaseException:
            if not self._again:
                self._steps = self._run()  # an interrupt ends a generator
            raise
        self._again = False
        if rows is None and self._trouble is not None:
            raise self._trouble
        return rows

    def fail(self, error: BaseException, untouched: bool = False) -> NoReturn:
        """End the subscription with an error, which may occur while rows are read. Raises it, or HistoryLost for lost files.

        A statement that was cancelled while the next rows were `untouched` does not end the subscription: it raises
        StatementCancelled, and the rows are computed once more. So does storage that failed. Partly taken rows would come in
        another order.
        """
        if not isinstance(error, Exception):
            self._again, self._failed = untouched, None if untouched else self._interrupted()
            raise error
        if untouched and cancelled(error):
            self._again = True
            raise StatementCancelled("the statement was cancelled while rows were computed", hint=_GO_ON) from error
        if failed := self._storage_failed(error):
            self._again, self._failed = untouched, None if untouched else failed
            raise failed
        self._failed = error
        if missing := missing_file(error):
            message = f"files that the subscription had still to read were vacuumed: the subscription ends ({missing})"
            hint = "subscribe anew; delta.deletedFileRetentionDuration says how long a slow reader may take"
            self._failed = HistoryLost(message, hint=hint)
            raise self._failed from error
        raise error

    def _interrupted(self) -> StatementCancelled:
        message = f"the reader of {to_sql(self._statement)} was interrupted between rows that come together: the subscription ends"
        return StatementCancelled(message, hint="subscribe anew, AS OF the last time whose rows were all read")

    def pause(self, longest: float | None = None) -> None:
        """Wait until the next poll, at most so many seconds. Raises StatementCancelled.

        Servers cancel the Spark jobs of a statement, but there are none now. They also interrupt its thread in the JVM, which
        waits for Python; the interrupt stays set until Python asks for it.
        """
        poll = read_setting(self._spark, SUBSCRIBE_POLL)
        until = time.monotonic() + (poll if longest is None else min(poll, longest))
        while True:
            if java_class(self._spark, "java.lang.Thread").interrupted():
                message = "the statement was cancelled while it waited for rows"
                raise StatementCancelled(message, hint=_GO_ON)
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _LOOK_SECONDS))

    def close(self) -> None:
        """Stop; shared feeds stay."""
        if not self.closed:
            self.closed = self.ended = True
            self._steps, self._step = iter(()), None  # they refer to this
            close_feed(self._feed)

    def _run(self) -> Iterator[Callable[[], R] | None]:
        """Yield rows to compute, in the order of their times, and None after all rows so far.

        It goes on behind what was given. An interrupt comes while tables are asked for news, when there is nothing to give.
        """
        as_of, statement, times = self._as_of, self._statement, self._inputs.times
        if statement.up_to == as_of:
            return
        if self._position is None:
            yield from self._progress(as_of)
            self._position = as_of
        if not self.begun:
            while not times.reached(as_of, self._latest()):
                yield None
            self.begun = True
            if statement.snapshot:
                yield lambda: self._feed.snapshot(as_of, self._output, self._form).read()
                yield from self._progress(as_of + 1)
        while times.inputs:
            latest = times.of(self._latest())
            steps = self._feed.relation.steps(self._position, latest if times.inputs > 1 else self._bounded(latest))
            while True:
                try:
                    step = next(steps, None)
                except Exception as error:
                    self._excuse(error)
                    break
                if self._beyond(latest + 1 if step is None else step):
                    return
                if step is None:
                    break
                several = times.inputs == 1 and step > self._position + 1
                yield partial(self._changes, self._position, step, several)
                self._position = step
                yield from self._progress(step + 1)
            yield None

    def _excuse(self, error: Exception) -> None:
        """Take an error for no news: trouble of the storage, which `next` raises, or an interrupt, for which `pause` asks."""
        if interrupted(error):
            java_class(self._spark, "java.lang.Thread").currentThread().interrupt()
        elif failed := self._storage_failed(error):
            self._trouble = failed
        else:
            raise error

    def _storage_failed(self, error: Exception) -> StorageFailed | None:
        """Return the error of the storage that is behind another one, or is that one."""
        if isinstance(error, StorageFailed):
            return error
        if failed := self._inputs.away() or storage_failed(error):
            failed.__cause__ = error
        return failed

    def _latest(self) -> Versions:
        """Return the latest time of the inputs, or the one that is known where they cannot be asked now."""
        self._trouble = None
        try:
            self._known = self._inputs.latest()
        except Exception as error:
            self._excuse(error)
        return self._known

    def _bounded(self, latest: int) -> int:
        """Several commits of one input are read together: not beyond UP TO."""
        return latest if self._statement.up_to is None else min(latest, self._statement.up_to - 1)

    def _beyond(self, step: int) -> bool:
        return self._statement.up_to is not None and step >= self._statement.up_to

    def _changes(self, after: int, upto: int, several: bool) -> R:
        return self._feed.changes(after, upto, several, self._output, self._form).read()

    def _progress(self, at: int) -> Iterator[Callable[[], R]]:
        if self._statement.progress and not self._beyond(at):
            yield lambda: ChangeRows(self._output.progressed(self._spark, at), self._form, shared=True).read()
