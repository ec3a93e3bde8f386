"""What Spark did: jobs, and rows read from files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Work:
    """What Spark did up to a moment: the number of its last job and stage."""

    job: int
    stage: int

    @classmethod
    def so_far(cls, spark: SparkSession) -> Work:
        jobs, stages = _jobs(spark), _stages(spark)
        return cls(max((each.jobId() for each in jobs), default=-1), max((each.stageId() for each in stages), default=-1))

    def since(self, spark: SparkSession) -> tuple[int, int]:
        """Return the jobs that ran since, and the rows that they read from files."""
        rows = sum(each.inputRecords() for each in _stages(spark) if each.stageId() > self.stage)
        return sum(each.jobId() > self.job for each in _jobs(spark)), rows

    def read(self, spark: SparkSession) -> int:
        """Return the bytes that jobs read from files since."""
        return sum(int(each.inputBytes()) for each in _stages(spark) if each.stageId() > self.stage)

    def busy(self, spark: SparkSession) -> float:
        """Return the milliseconds during which jobs ran since, those at the same time counted once."""
        times = [(each.submissionTime(), each.completionTime()) for each in _jobs(spark) if each.jobId() > self.job]
        ended, total = 0, 0
        for start, end in sorted((a.get().getTime(), b.get().getTime()) for a, b in times if a.isDefined() and b.isDefined()):
            total += max(0, end - max(start, ended))
            ended = max(ended, end)
        return float(total)


def _jobs(spark: SparkSession) -> list[Any]:
    return _listed(spark, _store(spark).jobsList(None))


def _stages(spark: SparkSession) -> list[Any]:
    store = _store(spark)
    no_quantiles = getattr(store, "stageList$default$4")()
    return _listed(spark, store.stageList(None, False, False, no_quantiles, None))


def _store(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc().statusStore()


def _listed(spark: SparkSession, sequence: Any) -> list[Any]:
    """Return what a sequence of Scala holds."""
    return list(spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(sequence))  # type: ignore[union-attr]
