"""Events that a consumer could not do: they come again in a later batch, or are given up.

They are appended to a Delta table in the hidden folder of the queue's own, and never changed: a batch redelivers what became due
between the beginning of the batch before it and its own, which are recorded, so that a batch that is repeated holds the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from streamtable.delta.tables import versions
from streamtable.queue.definition import Queue

__all__ = ["Retries"]


@dataclass(frozen=True)
class Retries:
    """The retries of one registration of a consumer (`application`) to a queue whose events have the columns `schema`."""

    spark: SparkSession
    queue: Queue
    application: str
    schema: StructType

    def add(self, rows: DataFrame, due: datetime | None, once: str, number: int) -> None:
        """Keep events, or redelivered ones with their `retries` behind them, once per `once` and `number`.

        Those that are never `due` are dead letters.
        """
        fields = [f"c{n}" for n in range(len(self.schema))]
        again = rows.toDF(*fields, *(["retries"] if len(rows.columns) > len(fields) else []))
        retries = F.col("retries") if "retries" in again.columns else F.lit(0)
        kept = again.select(
            F.lit(self.application).alias("application"),
            F.lit(due).cast("timestamp").alias("due_at"),
            (retries + 1).cast("int").alias("retries"),
            F.struct(*fields).alias("event"),
        )
        options = {"txnAppId": f"{self.application}.{once}", "txnVersion": str(number)}
        kept.write.format("delta").mode("append").options(**options).save(self._path)

    def due(self, after: datetime, upto: datetime) -> DataFrame:
        """Return what became due in (after, upto], with the column `retries` behind the event's own."""
        return self._rows((F.col("due_at") > F.lit(after)) & (F.col("due_at") <= F.lit(upto)))

    def dead(self) -> DataFrame:
        """Return the dead letters, in the same form."""
        return self._rows(F.col("due_at").isNull())

    def _rows(self, condition: Column) -> DataFrame:
        if versions(self.spark, [self._path])[0] is None:
            columns = [*self.schema.fields, StructField("retries", IntegerType())]
            return self.spark.createDataFrame([], StructType(columns))
        mine = self.spark.read.format("delta").load(self._path).where(F.col("application") == self.application)
        values = (F.col("event")[f"c{n}"].alias(name) for n, name in enumerate(self.schema.names))
        return mine.where(condition).select(*values, "retries")

    @property
    def _path(self) -> str:
        return f"{self.queue.path}/_streamtable/retries"
