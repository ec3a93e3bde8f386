"""Events that a consumer could not do: they come again in a later batch, or are given up until they are replayed.

They are rows of a Delta table in the hidden folder of the queue's own. A batch redelivers what became due between the beginning of
the batch before it and its own, which are recorded, so that a batch that is repeated holds the same.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamtable.delta.commit import commit, positions
from streamtable.delta.rows import read, read_located
from streamtable.delta.tables import versions
from streamtable.errors import ConcurrentRefresh, InvalidStatement
from streamtable.queue import events
from streamtable.queue.consumers import Batch, Consumer, now
from streamtable.queue.definition import RETRIES, Queue
from streamtable.sql.literals import quote_name

__all__ = ["Retries"]

_OURS = "__streamtable_"
_APPLICATION, _DUE, _COUNT, _EVENT = (f"{_OURS}{name}" for name in ("application", "due_at", "retries", "event"))


class Retries:
    """What one registration of a consumer to a queue could not do."""

    def __init__(self, spark: SparkSession, queue: Queue, consumer: Consumer) -> None:
        self._spark, self._queue, self._consumer = spark, queue, consumer
        self._application = consumer.application(queue)
        self._path = f"{queue.path}/_streamtable/retries"

    def add(self, rows: DataFrame, due: datetime | None, once: str, batch: Batch) -> None:
        """Keep events of a batch, as it gives them, once per batch and `once`. Those that are never `due` are dead letters."""
        *names, count = events.schema(self._spark, self._queue).names
        if rows.columns != [*names, count]:
            message = f"the rows have the columns {', '.join(rows.columns)}, and events have {', '.join((*names, count))}"
            raise InvalidStatement(message, hint="choose among the events by where, and leave their columns as they are")
        kept = rows.select(
            F.lit(self._application).alias(_APPLICATION),
            F.lit(due).cast("timestamp").alias(_DUE),
            (F.col(count) + 1).alias(_COUNT),
            F.struct(*(F.col(quote_name(name)) for name in names)).alias(_EVENT),
        )
        if self._version() is None:
            self._create(kept.schema)
        writer = kept.write.format("delta").mode("append")
        writer = writer.options(txnAppId=f"{self._application}.{batch.lane}.{once}", txnVersion=str(batch.number))
        writer.save(self._path)

    def due(self, after: datetime, upto: datetime) -> DataFrame | None:
        """Return what became due in (after, upto], None as long as nothing was ever put off: to union nothing costs as well."""
        return self._rows((F.col(_DUE) > F.lit(after)) & (F.col(_DUE) <= F.lit(upto)))

    def dead(self) -> DataFrame:
        """Return the dead letters."""
        dead = self._rows(F.col(_DUE).isNull())
        return self._spark.createDataFrame([], events.schema(self._spark, self._queue)) if dead is None else dead

    def replay(self, where: str | None) -> int:
        """Let dead letters come again in the next batch; return their number."""
        version = self._version()
        if version is None:
            return 0
        mine = (F.col(_APPLICATION) == self._application) & F.col(_DUE).isNull()
        dead = read_located(self._spark, self._path, version).where(mine).select("*", F.col(f"{_EVENT}.*"))
        chosen = dead if where is None else dead.where(where)
        found = positions(self._spark, chosen, self._path, version)
        due = max(now(), self._consumer.begun_at) + timedelta(milliseconds=1)
        again = chosen.select(_APPLICATION, F.lit(due).alias(_DUE), _COUNT, _EVENT)
        if found.count:
            ours = f"{self._application}.replay"
            commit(self._spark, self._path, read_version=version, application=ours, number=version, add=again, remove=found)
        return found.count

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

    def _rows(self, condition: Column) -> DataFrame | None:
        version = self._version()
        if version is None:
            return None
        mine = read(self._spark, self._path, version).where(F.col(_APPLICATION) == self._application)
        return mine.where(condition).select(f"{_EVENT}.*", F.col(_COUNT).alias(RETRIES))

    def _version(self) -> int | None:
        found = versions(self._spark, [self._path])[0]
        return None if found is None else found.number
