"""What Spark shows of a refresh: its jobs bear the name of the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pyspark.sql import SparkSession

from streamtable.jvm.handles import local_property

__all__ = ["jobs_named_after"]

GROUP = "spark.jobGroup.id"


@contextmanager
def jobs_named_after(spark: SparkSession, name: str, doing: str) -> Iterator[None]:
    """Describe the jobs by what is done to the table `name`, in a group of its own unless the caller has one to cancel them by."""
    with ExitStack() as stack:
        stack.enter_context(local_property(spark, "spark.job.description", f"{doing} {name}"))
        if spark.sparkContext.getLocalProperty(GROUP) is None:
            stack.enter_context(local_property(spark, GROUP, f"streamtable {name}"))
        yield
