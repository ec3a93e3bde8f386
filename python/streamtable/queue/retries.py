"""Events that a consumer could not do: they come again in a later batch, or are given up until they are replayed.

They are rows of a Delta table in the hidden folder of the queue's own. Each tells the version of the table that it came with, and a
batch the version that it began with: it redelivers what was kept and due then, but neither kept nor due when the batch before it
began. So a row that is committed while a batch begins is in that one or in the next, and a batch that is repeated holds the same.

What was put off of a batch is known by its content: a batch that is repeated may say it again, in other calls.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from streamtable.delta.bridge import translated
from streamtable.delta.commit import Positions, commit, positions
from streamtable.delta.rows import read, read_located
from streamtable.delta.tables import state, versions
from streamtable.errors import ConcurrentRefresh, HistoryLost, InvalidStatement
from streamtable.queue import consumers, events
from streamtable.queue.consumers import Batch, Consumer
from streamtable.queue.definition import RETRIES, Queue
from streamtable.refresh.compact import compact
from streamtable.sql.literals import quote_name

__all__ = ["Retries", "reclaim"]

_OURS = "__streamtable_"
_APPLICATION, _DUE, _COUNT, _EVENT = (f"{_OURS}{name}" for name in ("application", "due_at", "retries", "event"))
_BATCH, _KEY, _SINCE = (f"{_OURS}{name}" for name in ("batch", "key", "since"))
_LATER = {_BATCH: "bigint", _KEY: "string", _SINCE: "bigint"}
"""Columns that tables of earlier releases lack: of which batch a row was put off, what tells it from others, its version."""

_UNLOGGED = {"spark.databricks.delta.vacuum.logging.enabled": "false"}
"""A commit of VACUUM conflicts with no other, so that rows that are kept meanwhile would not know their version."""

_EXACT = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}


class Retries:
    """What one registration of a consumer to a queue could not do."""

    def __init__(self, spark: SparkSession, queue: Queue, consumer: Consumer) -> None:
        self._spark, self._queue, self._consumer = spark, queue, consumer
        self._application = consumer.application(queue)
        self._path = _path(queue)

    def version(self) -> int | None:
        """Return the version of the table, None as long as nothing was ever put off. Raises HistoryLost for one that went back."""
        found, known = versions(self._spark, [self._path])[0], self._consumer.retries_at
        if (found.number if found else 0) < known:
            name = self._consumer.name
            hint = f"UNREGISTER CONSUMER {name} ON {self._queue}, and REGISTER it AT a time from which events are to come again"
            raise HistoryLost(f"events that {name} put off are lost: version {known} of their table is gone", hint=hint)
        return None if found is None else found.number

    def add(self, rows: DataFrame, due: datetime | None, batch: Batch) -> None:
        """Keep events of a batch, as it gives them, once each. Those that are never `due` are dead letters.

        Of RETRY and GIVE UP for one event the last decides, unless it came again in a later batch already.
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
        """Return what comes again in a batch, None as long as nothing was ever put off: to union nothing costs as well."""
        version = self.version()
        return None if version is None else _events(self._mine(version).where(_window(batch)), schema)

    def come_in(self, batch: Batch) -> bool:
        """Tell whether something comes again in a batch."""
        version = self.version()
        return version is not None and not self._mine(version).where(_window(batch)).isEmpty()

    def dead(self) -> DataFrame:
        """Return the dead letters."""
        schema, version = events.schema(self._spark, self._queue), self.version()
        if version is None:
            return self._spark.createDataFrame([], schema)
        return _events(self._mine(version).where(F.col(_DUE).isNull()), StructType(schema.fields[:-1]))

    @consumers.patiently
    def replay(self, where: str | None) -> int:
        """Let dead letters come again in the next batch; return their number."""
        version = self.version()
        if version is None:
            return 0
        version = self._ready(self._mine(version).schema)
        dead = self._mine(version, located=True).where(F.col(_DUE).isNull()).select("*", F.col(f"{_EVENT}.*"))
        chosen = dead if where is None else dead.where(where)
        found = positions(self._spark, chosen, self._path, version)
        if found.count:
            due = F.lit(self._consumer.begun_at).cast("timestamp")  # the next batch begins later
            self._commit(version, chosen.withColumn(_DUE, due), found)
        return found.count

    @consumers.patiently
    def _keep(self, kept: DataFrame, dead: bool, batch: Batch) -> None:
        """Keep what is not kept already; what is, as the other kind, changes it."""
        version = self._ready(kept.schema)
        here = self._mine(version, located=True).where(F.col(_BATCH) == batch.number)
        latest = consumers.load(self._spark, self._queue, self._consumer.name)
        settled = (F.col(_DUE).isNull() == F.lit(dead)) | _there(latest.retries_at, latest.begun_at)
        new = kept.join(here.where(settled).select(_KEY), _KEY, "left_anti")
        if not new.isEmpty():  # a commit without rows conflicts with none, so that the next would not know its version
            other = here.where(~settled).join(kept.select(_KEY), _KEY, "left_semi")
            self._commit(version, new, positions(self._spark, other, self._path, version))

    def _commit(self, version: int, add: DataFrame, remove: Positions) -> None:
        """Replace rows on top of a version: those that come know the next one as theirs."""
        event = _event(self._mine(version).schema)
        columns = (_APPLICATION, _DUE, _COUNT, _BATCH, _KEY, F.lit(version + 1).cast("bigint").alias(_SINCE))
        added = add.select(*columns, F.struct(*_fields(add, event)).alias(_EVENT))
        commit(
            self._spark,
            self._path,
            read_version=version,
            application=f"{self._application}.retries",
            number=version + 1,
            add=added,
            remove=remove,
        )

    def _ready(self, schema: StructType) -> int:
        """Return the latest version of the table, made or widened so that rows of a schema, and ours, have a place in it."""
        wanted = StructType([*(each for each in schema if each.name != _SINCE), StructField(_SINCE, LongType())])
        if self.version() is None:
            self._create(wanted)
        found = state(self._spark, self._path)
        if _names(wanted) <= _names(found.schema):
            return found.version
        nothing = self._spark.createDataFrame([], wanted)
        with translated(self._path):
            nothing.write.format("delta").mode("append").option("mergeSchema", "true").save(self._path)
        return state(self._spark, self._path).version

    def _create(self, schema: StructType) -> None:
        """Make the table. Delta's writer takes a folder that is not there for a partition of the table around it, and prints so."""
        with suppress(ConcurrentRefresh):  # another made it
            # A table without a mapping takes only some names of columns.
            properties = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
            nullable = schema.toNullable().json()
            ours = f"{self._application}.create"
            commit(
                self._spark,
                self._path,
                read_version=-1,
                application=ours,
                number=0,
                schema_json=nullable,
                properties=properties,
            )

    def _mine(self, version: int, located: bool = False) -> DataFrame:
        """Read what this consumer put off."""
        rows = (read_located if located else read)(self._spark, self._path, version)
        return _complete(rows).where(F.col(_APPLICATION) == self._application)


@consumers.patiently
def reclaim(spark: SparkSession, queue: Queue) -> None:
    """Delete what came again in batches that are finished, and what registrations that are gone put off; compact the rest.

    What a batch in work put off stays as well: it may be repeated and say it again.
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
        commit(spark, path, read_version=found.number, application=queue.id, number=found.number + 1, remove=gone)
    with translated(path):
        compact(spark, [path], _UNLOGGED)


def _path(queue: Queue) -> str:
    return f"{queue.path}/_streamtable/retries"


def _complete(rows: DataFrame) -> DataFrame:
    """Add the columns that a table of an earlier release lacks."""
    return rows.withColumns({name: F.lit(None).cast(kind) for name, kind in _LATER.items() if name not in rows.columns})


def _window(batch: Batch) -> Column:
    return _there(batch.retries_at, batch.begun_at) & ~_there(batch.retries_after, batch.retried_after)


def _there(version: int, at: datetime) -> Column:
    """Tell of a row whether it was kept in a version and due at a moment."""
    return F.coalesce((F.coalesce(_SINCE, F.lit(0)) <= version) & (F.col(_DUE) <= F.lit(at)), F.lit(False))


def _events(rows: DataFrame, schema: StructType) -> DataFrame:
    return rows.select(*_fields(rows, schema), F.col(_COUNT).alias(RETRIES))


def _fields(rows: DataFrame, schema: StructType) -> list[Column]:
    """Return the columns of events: one that came to the captured table later is NULL."""
    known = {each.name for each in _event(rows.schema)}
    return [
        (F.col(f"{_EVENT}.{quote_name(each.name)}") if each.name in known else F.lit(None).cast(each.dataType)).alias(each.name)
        for each in schema
    ]


def _event(schema: StructType) -> StructType:
    event = schema[_EVENT].dataType
    assert isinstance(event, StructType), "it was made so"
    return event


def _names(schema: StructType) -> set[tuple[str, ...]]:
    return {*((each.name,) for each in schema), *((_EVENT, each.name) for each in _event(schema))}
