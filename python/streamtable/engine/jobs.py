"""The names of a refresh's jobs in Spark's UI: they contain the name of the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import SparkSession

from streamtable.jvm.handles import local_property

__all__ = ["REFRESH_OF", "jobs_named_after"]

GROUP = "spark.jobGroup.id"
REFRESH_OF = "refresh of"


@contextmanager
def jobs_named_after(spark: SparkSession, name: str, doing: str) -> Iterator[None]:
    """Describe the jobs by their task on the table `name`, in a job group of their own unless the caller has one."""
    with ExitStack() as stack:
        stack.enter_context(local_property(spark, "spark.job.description", f"{doing} {name}"))
        if spark.sparkContext.getLocalProperty(GROUP) is None:
            stack.enter_context(local_property(spark, GROUP, f"streamtable {name}"))
        yield
