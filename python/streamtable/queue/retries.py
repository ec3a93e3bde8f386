"""Events that failed: a later batch redelivers them, or they are dead letters until they are replayed.

They are rows of a Delta table in the hidden folder of the queue. Each row records the version of the table that brought it, and
each batch the version at which it began. A batch redelivers the rows that were recorded and due when it began, except the rows
that the batch before it already redelivered. So a row that is committed while a batch begins is in that batch or in the next one,
and a repeated batch holds the same rows.

A row is identified by the number of its batch and its content, so a repeated batch may put the same events off again, in other
calls.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from streamtable.catalog.paths import HIDDEN
from streamtable.delta.commit import Metadata, Positions, RowChange, Transaction, commit, positions
from streamtable.delta.commit_ids import is_same
from streamtable.delta.ddl import add_columns
from streamtable.delta.maintenance import UNLOGGED
from streamtable.delta.rows import read, read_located
from streamtable.delta.tables import TableState, Version, state, versions
from streamtable.errors import ConcurrentRefresh, HistoryLost, InvalidStatement, SourceChanged
from streamtable.language.names import Condition
from streamtable.query.rejected import rejection
from streamtable.query.rewrite import rewritten
from streamtable.queue import consumers, events
from streamtable.queue.consumers import Batch, Consumer
from streamtable.queue.definition import RETRIES, Queue
from streamtable.queue.retyped import fields, retyped, same_type, unfit
from streamtable.refresh.compact import compact
from streamtable.sql.literals import quote_name

__all__ = ["Retries", "chosen_by", "dead_schema", "reclaim"]

_OURS = "__streamtable_"
_APPLICATION, _DUE, _COUNT, _EVENT = (f"{_OURS}{name}" for name in ("application", "due_at", "retries", "event"))
_BATCH, _KEY, _SINCE = (f"{_OURS}{name}" for name in ("batch", "key", "since"))
_LATER = {_BATCH: "bigint", _KEY: "string", _SINCE: "bigint"}
"""Columns that tables of earlier releases lack: the batch of a row, its identity, and its version."""

_EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "true",
}
"""Options with which the JSON of an event is the same in every session."""


class Retries:
    """The failed events of one registration of a consumer."""

    def __init__(self, spark: SparkSession, queue: Queue, consumer: Consumer) -> None:
        self._spark, self._queue, self._consumer = spark, queue, consumer
        self._application = consumer.application(queue)
        self._path = _path(queue)

    def version(self) -> int | None:
        """Return the number of the latest version of the table. Raises HistoryLost as `latest` does."""
        found = self.latest()
        return None if found is None else found.number

    def latest(self) -> Version | None:
        """Return the latest version of the table, None before the first failed event.

        Raises HistoryLost if it does not hold the version that the consumer has seen, but another one or none.
        """
        found, known = versions(self._spark, [self._path])[0], self._consumer.retries_at
        if known and (found is None or found.number < known or self._is_another(found)):
            name = self._consumer.name
            hint = f"UNREGISTER CONSUMER {name} ON {self._queue}, and REGISTER it AT a time from which events are to come again"
            raise HistoryLost(f"events that {name} put off are lost: version {known} of their table is gone", hint=hint)
        return found

    def _is_another(self, found: Version) -> bool:
        """Tell whether another table, or another commit of its number, is in the place of what the consumer has seen."""
        table = self._consumer.retries_table
        seen = Version(found.table_id, self._consumer.retries_at, self._consumer.retries_commit)
        return table not in (None, found.table_id) or not is_same(self._spark, self._path, seen, found)

    def add(self, rows: DataFrame, due: datetime | None, batch: Batch) -> None:
        """Record events of a batch, once each. Events that are never `due` are dead letters.

        Between RETRY and GIVE UP for one event the last call decides, unless a later batch has redelivered the event.
        """
        *names, count = events.schema(self._spark, self._queue).names
        if rows.columns != [*names, count]:
            message = f"the rows have the columns {', '.join(rows.columns)}, and events have {', '.join((*names, count))}"
            raise InvalidStatement(message, hint="choose among the events by where, and leave their columns as they are")
        content = F.sha2(F.to_json(F.struct(*(F.col(quote_name(name)) for name in rows.columns)), _EXACT), 256)
        which = F.row_number().over(Window.partitionBy(content).orderBy(F.lit(0)))  # equal ones are as many as they are
        kept = rows.select(
            F.lit(self._application).alias(_APPLICATION),
            F.lit(due).cast("timestamp").alias(_DUE),
            (F.col(count) + 1).alias(_COUNT),
            F.struct(*(F.col(quote_name(name)) for name in names)).alias(_EVENT),
            F.lit(batch.number).cast("bigint").alias(_BATCH),
            F.concat_ws(".", content, which).alias(_KEY),
        )
        kept.persist()  # chosen once, whatever the condition says
        try:
            if not kept.isEmpty():
                self._keep(kept, due is None, batch)
        finally:
            kept.unpersist()

    def again(self, batch: Batch, schema: StructType) -> DataFrame | None:
        """Return the rows that a batch redelivers; None before the first failed event, because an empty union costs time."""
        version = self.version()
        return None if version is None else self._events(self._mine(version).where(_window(batch)), schema)

    def come_in(self, batch: Batch) -> bool:
        """Tell whether a batch redelivers events."""
        version = self.version()
        return version is not None and not self._mine(version).where(_window(batch)).isEmpty()

    def dead(self) -> DataFrame:
        """Return the dead letters, in the columns of `dead_schema`."""
        schema, version = dead_schema(self._spark, self._queue), self.version()
        if version is None:
            return self._spark.createDataFrame([], schema)
        return self._events(self._mine(version).where(F.col(_DUE).isNull()), StructType(schema.fields[:-1]))

    @consumers.patiently
    def replay(self, where: str | None) -> int:
        """Redeliver dead letters in the next batch; return their number."""
        version = self.version()
        if version is None:
            return 0
        version = self._ready(self._mine(version).schema)
        dead = self._mine(version, located=True).where(F.col(_DUE).isNull()).select("*", F.col(f"{_EVENT}.*"))
        chosen = chosen_by(where, dead)
        found = positions(self._spark, chosen, self._path, version)
        if found.count:
            due = F.lit(self._consumer.begun_at).cast("timestamp")  # the next batch begins later
            self._commit(version, chosen.withColumn(_DUE, due), found)
        return found.count

    @consumers.patiently
    def _keep(self, kept: DataFrame, dead: bool, batch: Batch) -> None:
        """Record new rows, and change recorded rows of the other kind (retry or dead letter)."""
        version = self._ready(kept.schema)
        here = self._mine(version, located=True).where(F.col(_BATCH) == batch.number)
        latest = consumers.load(self._spark, self._queue, self._consumer.name)
        settled = (F.col(_DUE).isNull() == F.lit(dead)) | _there(latest.retries_at, latest.begun_at)
        new = kept.join(here.where(settled).select(_KEY), _KEY, "left_anti")
        if not new.isEmpty():  # a commit without rows conflicts with none, so that the next would not know its version
            other = here.where(~settled).join(kept.select(_KEY), _KEY, "left_semi")
            self._commit(version, new, positions(self._spark, other, self._path, version))

    def _commit(self, version: int, add: DataFrame, remove: Positions) -> None:
        """Replace rows on top of a version. New rows record the next version."""
        event = _event(self._mine(version).schema)
        columns = (_APPLICATION, _DUE, _COUNT, _BATCH, _KEY, F.lit(version + 1).cast("bigint").alias(_SINCE))
        added = add.select(*columns, F.struct(*self._fields(add, event)).alias(_EVENT))
        commit(
            self._spark,
            self._path,
            version,
            Transaction(f"{self._application}.retries", version + 1),
            RowChange(added, remove),
        )

    def _ready(self, schema: StructType) -> int:
        """Return the latest version of the table, after creating it or giving it the columns and types of events."""
        wanted = StructType([*(each for each in schema if each.name != _SINCE), StructField(_SINCE, LongType())])
        if self.version() is None:
            self._create(wanted)
        found = state(self._spark, self._path)
        event, coming = _event(found.schema), _event(wanted)
        now, rows = retyped(event, coming), read(self._spark, self._path, found.version)
        if unfit(coming, now) and rows.isEmpty():
            now = coming
        self._check(coming, now)
        if not same_type(now, event):
            self._retype(found, now, rows)
        others = [each for each in wanted if each.name != _EVENT]
        lacking = [each for each in coming if each.name not in now.names]
        complete = not lacking and {each.name for each in others} <= {*found.schema.names}
        if complete and same_type(now, event):
            return found.version
        if not complete:
            add_columns(self._spark, self._path, StructType([*others, StructField(_EVENT, StructType([*now, *lacking]))]))
        return state(self._spark, self._path).version

    def _create(self, schema: StructType) -> None:
        """Make the table. Delta's writer would take a missing folder for a partition of the table around it, and print that."""
        with suppress(ConcurrentRefresh):  # another made it
            # A table without a mapping takes only some names of columns.
            properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
            nullable = schema.toNullable().json()
            by, metadata = Transaction(f"{self._application}.create", 0), Metadata(schema_json=nullable, properties=properties)
            commit(self._spark, self._path, -1, by, metadata=metadata)

    def _retype(self, found: TableState, event: StructType, rows: DataFrame) -> None:
        """Write the table anew, with events of other types. Its rows keep the versions that brought them."""
        ours = [each for each in found.schema if each.name != _EVENT]
        typed = F.struct(*self._fields(rows, event)).alias(_EVENT)
        anew = None if rows.isEmpty() else rows.select(*(each.name for each in ours), typed)
        schema = StructType([*ours, StructField(_EVENT, event)]).toNullable().json()
        by = Transaction(f"{self._application}.retries", found.version + 1)
        commit(self._spark, self._path, found.version, by, RowChange(anew, replace_all=True), Metadata(schema_json=schema))

    def _events(self, rows: DataFrame, schema: StructType) -> DataFrame:
        return rows.select(*self._fields(rows, schema), F.col(_COUNT).alias(RETRIES))

    def _fields(self, rows: DataFrame, schema: StructType) -> list[Column]:
        """Return the columns of events. Columns that the captured table got later are NULL. Raises SourceChanged."""
        known = _event(rows.schema)
        if unfit(known, schema) and rows.isEmpty():  # whatever types they have
            known = StructType()
        self._check(known, schema)
        return fields(F.col(_EVENT), known, schema)

    def _check(self, old: StructType, new: StructType) -> None:
        if name := unfit(old, new):
            kinds = " and ".join(each[name].dataType.simpleString().upper() for each in (old, new))
            message = f"the column {name} of {self._queue} had another type when a consumer put events off: {kinds}"
            anew = "UNREGISTER each consumer that put events off before, and REGISTER it again"
            raise SourceChanged(message, hint=f"give the column its type back, or {anew}")

    def _mine(self, version: int, located: bool = False) -> DataFrame:
        """Read the rows of this consumer."""
        rows = (read_located if located else read)(self._spark, self._path, version)
        return _complete(rows).where(F.col(_APPLICATION) == self._application)


def chosen_by(where: str | None, rows: DataFrame) -> DataFrame:
    """Return the events that fit a condition. Raises InvalidQuery for what Spark takes for none."""
    if where is None:
        return rows
    try:
        return rows.where(rewritten(where))
    except AnalysisException as error:
        raise rejection(rows.sparkSession, Condition(where), error) from error


def dead_schema(spark: SparkSession, queue: Queue) -> StructType:
    """Return the columns of dead letters: those of events, or where the source cannot be read, those of what was put off."""
    try:
        return events.schema(spark, queue)
    except events.UNREADABLE:
        path, count = _path(queue), StructField(RETRIES, IntegerType(), nullable=False)
        known = versions(spark, [path])[0]
        fields = _event(read(spark, path, known.number).schema).fields if known else []
        return StructType([*(StructField(each.name, each.dataType) for each in fields), count])


@consumers.patiently
def reclaim(spark: SparkSession, queue: Queue) -> None:
    """Delete rows that finished batches redelivered, and rows of deleted registrations; compact the rest.

    Rows of an open batch stay, because the batch may be repeated and put them off again.
    """
    path = _path(queue)
    found = versions(spark, [path])[0]
    if found is None:
        return
    needed = F.lit(False)
    for each in consumers.of(spark, queue):  # read after the version: what is there by then is of one that is known
        still = ~_there(each.retries_at, each.begun_at)
        for batch in each.in_work:
            still |= _window(batch) | F.coalesce(F.col(_BATCH) == batch.number, F.lit(False))
        needed |= (F.col(_APPLICATION) == each.application(queue)) & still
    gone = positions(spark, _complete(read_located(spark, path, found.number)).where(~needed), path, found.number)
    if gone.count:
        commit(spark, path, found.number, Transaction(queue.id, found.number + 1), RowChange(remove=gone))
    # VACUUM must not write commits: they conflict with no other commit, so rows recorded meanwhile would have a wrong version.
    compact(spark, [path], UNLOGGED)


def _path(queue: Queue) -> str:
    return f"{queue.path}{HIDDEN}/retries"


def _complete(rows: DataFrame) -> DataFrame:
    """Add the columns that a table of an earlier release lacks."""
    return rows.withColumns({name: F.lit(None).cast(kind) for name, kind in _LATER.items() if name not in rows.columns})


def _window(batch: Batch) -> Column:
    return _there(batch.retries_at, batch.begun_at) & ~_there(batch.retries_after, batch.retried_after)


def _there(version: int, at: datetime) -> Column:
    """Return the condition that a row was recorded in a version and due at a moment."""
    return F.coalesce((F.coalesce(_SINCE, F.lit(0)) <= version) & (F.col(_DUE) <= F.lit(at)), F.lit(False))


def _event(schema: StructType) -> StructType:
    event = schema[_EVENT].dataType
    assert isinstance(event, StructType), "it was made so"
    return event
