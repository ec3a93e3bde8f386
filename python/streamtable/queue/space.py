"""The space of a queue: deletes its own events that all consumers have finished, and redelivered retries."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import SparkSession
from tenacity import stop_after_attempt, wait_random_exponential

from streamtable.algebra.columns import POSITION
from streamtable.delta.commit import Positions, RowChange, Transaction, again_after_conflicts, commit, positions
from streamtable.delta.rows import read_located
from streamtable.delta.summaries import commits
from streamtable.delta.tables import state
from streamtable.errors import ConcurrentRefresh, InvalidStatement
from streamtable.queue import consumers
from streamtable.queue.consumers import Batch
from streamtable.queue.definition import Queue
from streamtable.queue.retries import reclaim

__all__ = ["purge", "purge_now_and_then", "reclaim_now_and_then"]

_COMMITS = 100
"""The number of finished commits, or of finished batches of one consumer, that is worth a Spark job."""

_ATTEMPTS = 20
_FILE, _ = POSITION


def purge(spark: SparkSession, queue: Queue) -> int:
    """Delete the events that all consumers have finished; return their number. VACUUM frees the files later.

    Without a consumer, all events are deleted: a consumer that is registered later gets those that come after it.
    """
    if not queue.free_standing:
        message = f"{queue} has no events of its own: they are read from the history of what it captures"
        raise InvalidStatement(message, hint="delta.logRetentionDuration of the captured table says how long that is kept")
    reclaim(spark, queue)
    return _purge(spark, queue)


def _purge(spark: SparkSession, queue: Queue) -> int:
    for _ in range(_ATTEMPTS):
        version = state(spark, queue.path).version
        upto = min([version, *(each.finished for each in consumers.of(spark, queue))])
        passed = read_located(spark, queue.path, upto).select(_FILE).distinct()
        rows = read_located(spark, queue.path, version).join(passed, _FILE, "left_semi")
        found = positions(spark, rows, queue.path, version)
        if not found.count or _is_removed(spark, queue, version, found):
            return found.count
    raise ConcurrentRefresh(f"the files of {queue} were rewritten while it was purged; nothing was deleted", hint="purge it again")


@again_after_conflicts(stop_after_attempt(_ATTEMPTS), wait_random_exponential(0.05, 1)).wraps
def _is_removed(spark: SparkSession, queue: Queue, read: int, found: Positions) -> bool:
    """Delete events on top of inserts since they were found. Do nothing, and tell so, where files were rewritten since."""
    version = state(spark, queue.path).version
    if any(each.removes_files for each in commits(spark, queue.path, read, version)):
        return False
    commit(spark, queue.path, version, Transaction(queue.id, version + 1), RowChange(remove=found))
    return True


def purge_now_and_then(spark: SparkSession, queue: Queue, before: int, after: int) -> None:
    """Purge a free-standing queue when the last of its consumers has passed the next `_COMMITS` commits."""
    if not queue.free_standing or before // _COMMITS == after // _COMMITS:
        return
    if before // _COMMITS < min(each.finished for each in consumers.of(spark, queue)) // _COMMITS:
        with suppress(ConcurrentRefresh):  # inserts came first: it is tried again later
            purge(spark, queue)


def reclaim_now_and_then(spark: SparkSession, queue: Queue, finished: Batch) -> None:
    """Delete redelivered retries each time that a consumer has finished `_COMMITS` batches."""
    if finished.number % _COMMITS == 0:
        with suppress(ConcurrentRefresh):
            reclaim(spark, queue)
