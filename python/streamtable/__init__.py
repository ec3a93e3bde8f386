"""Declarative, incrementally maintained tables for Spark SQL on Delta Lake.

from pyspark.sql import SparkSession
from streamtable import configure

spark = configure(SparkSession.builder).getOrCreate()
spark.sql("CREATE STREAM TABLE per_city AS SELECT city, count(*) AS n FROM people GROUP BY city")
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from streamtable.api.tables import StreamTable, StreamTables
from streamtable.errors import *  # noqa: F403
from streamtable.errors import __all__ as _errors
from streamtable.hosts.console import console
from streamtable.hosts.notebook import load_ipython_extension
from streamtable.hosts.session import configure, enable, open_queue, start_scheduler, subscribe

__all__ = [
    "StreamTable",
    "StreamTables",
    "__version__",
    "configure",
    "console",
    "enable",
    "load_ipython_extension",
    "open_queue",
    "start_scheduler",
    "subscribe",
    *_errors,
]

try:
    __version__ = version("streamtable")
except PackageNotFoundError:  # a checkout that is on the path but not installed
    __version__ = "0+unknown"
