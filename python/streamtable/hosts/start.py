"""Start a session of this process; where there is none, say why in words for people."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streamtable.errors import NotEnabled
from streamtable.jvm.failures import catalog_in_use

__all__ = ["not_started", "started"]


def started(builder: SparkSession.Builder) -> SparkSession | Exception:
    """Return the session, or what went wrong: `not_started` explains it, when Java's output is no longer kept away."""
    try:
        spark = builder.getOrCreate()
        spark.sql("SHOW DATABASES").collect()  # the catalog is opened by the first who asks
    except Exception as error:  # py4j and Spark have no common class for "did not start"
        return error
    return spark


def not_started(error: Exception, said: str = "") -> NotEnabled:
    """Return what to raise for an error of `started`; `said` is what Java printed, if that was kept from the terminal."""
    if isinstance(error, NotEnabled):
        return error
    if in_use := catalog_in_use(error):
        return in_use
    what = "Java" if "JAVA_GATEWAY_EXITED" in str(error) else "Spark"
    return NotEnabled(f"{what} did not start: {error}\n{said}", hint="streamtable doctor looks for the cause")
