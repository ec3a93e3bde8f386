"""Start a session of this process, with a plain error if that fails."""

from __future__ import annotations

from pyspark.sql import SparkSession

from streamtable.errors import NotEnabled, StreamTableError
from streamtable.jvm.failures import catalog_in_use

__all__ = ["not_started", "started"]


def started(builder: SparkSession.Builder) -> SparkSession | Exception:
    """Return the session, or the error, which `not_started` explains after Java's output is shown again."""
    try:
        spark = builder.getOrCreate()
        spark.sql("SHOW DATABASES").collect()  # the catalog is opened by the first who asks
    except Exception as error:  # py4j and Spark have no common class for "did not start"
        return error
    return spark


def not_started(error: Exception, said: str = "") -> StreamTableError:
    """Return the exception for an error of `started`; `said` is Java's output, if it was not shown in the terminal."""
    if isinstance(error, StreamTableError):
        return error
    if in_use := catalog_in_use(error):
        return in_use
    what = "Java" if "JAVA_GATEWAY_EXITED" in str(error) else "Spark"
    return NotEnabled(f"{what} did not start: {error}\n{said}", hint="streamtable doctor looks for the cause")
