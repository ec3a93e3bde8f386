"""The console's access to Spark: each button is a statement, whose Spark jobs are in a group of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField

from streamtable.api.answers import Refreshed
from streamtable.api.tables import StreamTable, StreamTables
from streamtable.catalog.entries import load
from streamtable.hosts.console.board import Act, Contents, Explained, Job
from streamtable.hosts.words import amount, short
from streamtable.jvm.handles import local_property
from streamtable.language.names import Name
from streamtable.observe.effort import effort_of
from streamtable.observe.look import look
from streamtable.observe.operators import last_refreshes, operators
from streamtable.observe.status import Status
from streamtable.schedule.cycle import Task
from streamtable.schedule.loop import Scheduler
from streamtable.sessions.internal import new
from streamtable.sql.literals import quote_name

__all__ = ["SparkHands"]

ROWS, LETTERS = 100, 200
"""The number of rows of the contents that are shown, and the number of letters of a value."""
GROUP = "spark.jobGroup.id"


class SparkHands:
    """Acts in sessions beside the given one, without its current schema, views and settings."""

    def __init__(self, spark: SparkSession, scheduler: Scheduler | None = None) -> None:
        self._spark = spark
        self._scheduler = scheduler

    def look(self, before: Status | None) -> Status:
        """Return what there is now."""
        return look(self._spark, before)

    def jobs(self) -> Sequence[Job]:
        """Return the running work: the scheduler's refreshes, and all other Spark jobs by group."""
        found = dict[str, Job]()
        for task in self._refreshing():
            text = f"scheduled refresh of {short(task.name)}"
            found[task.group] = Job(task.group, text, 0, 0, task.vector.at, task.name, task.tag)
        spark: Any = self._spark.sparkContext._jsc.sc()
        for number in spark.statusTracker().getActiveJobIds():
            with suppress(Py4JError):  # Spark forgets jobs between the two questions
                job = spark.statusStore().job(number)
                group, text = _if_there(job.jobGroup()), _if_there(job.description()) or "a statement"
                known = found.get(group) or Job(group, text, 0, 0)
                done = known.done + job.numCompletedTasks() + job.numSkippedTasks()
                found[group] = replace(known, done=done, tasks=known.tasks + job.numTasks())
        return tuple(found.values())

    def act(self, act: Act, name: tuple[str, ...], group: str) -> tuple[bool, str]:
        """Issue the statement; return whether it succeeded, and the text for people."""
        with local_property(self._spark, GROUP, group):
            table = self._at(name)
            match act:
                case Act.REFRESH | Act.FULL:
                    return True, _told(table.refresh(full=act is Act.FULL))
                case Act.VERIFY:
                    verdict = table.verify()
                    if verdict.ok:
                        return True, "exact: the contents are the query's"
                    return False, f"not exact: {amount(verdict.missing)} rows missing, {amount(verdict.surplus)} too many"
                case Act.SUSPEND:
                    table.suspend()
                    return True, "suspended"
                case Act.RESUME:
                    table.resume()
                    return True, "resumed"

    def cancel(self, key: str) -> None:
        """Cancel the Spark jobs that run now: those of a scheduled refresh by its tag, others by their group."""
        context = self._spark.sparkContext
        by_tag = key in {each.tag for each in self._refreshing()}
        (context.cancelJobsWithTag if by_tag else context.cancelJobGroup)(key)

    def _refreshing(self) -> Sequence[Task]:
        return self._scheduler.refreshing if self._scheduler else ()

    def explain(self, name: tuple[str, ...]) -> Explained:
        """Return how each operator is maintained."""
        spark = new(self._spark)
        entry = load(spark, Name(name))
        tree, (last, before) = operators(spark, entry), last_refreshes(spark, entry)
        known = [(each.operator, each.incremental, each.reason) for each in tree]
        said = [each for each in self._at(name).explain() if (each.operator, each.incremental, each.reason) not in known]
        return Explained(tuple(said), tuple(tree), last, effort_of(spark, last, before) if last else None)

    def rows(self, name: tuple[str, ...]) -> Contents:
        """Return the first rows, in no order, each value as text."""
        frame = self._at(name).to_df()
        shown = frame.select([_as_text(field) for field in frame.schema])
        return Contents(tuple(frame.columns), tuple(tuple(row) for row in shown.take(ROWS)))

    def _at(self, name: tuple[str, ...]) -> StreamTable:
        return StreamTables(new(self._spark)).at(str(Name(name)))


def _as_text(field: StructField) -> Column:
    column = F.col(quote_name(field.name))
    text = F.hex(column) if isinstance(field.dataType, BinaryType) else column.cast("string")
    return F.substring(text, 1, LETTERS).alias(field.name)


def _if_there(option: Any) -> str:
    """Return what Scala's Option holds, or nothing."""
    return str(option.get()) if option.isDefined() else ""


def _told(done: Refreshed) -> str:
    return f"{done.action}: +{amount(done.rows_inserted)} -{amount(done.rows_deleted)} rows in {done.duration_ms} ms. {done.reason}"
