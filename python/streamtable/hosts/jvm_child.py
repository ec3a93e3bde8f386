"""The Python process of a JVM that no Python started. The JVM's shim starts this module with the first of our statements.

The process lives as long as its standard input is open, so it ends with the JVM, however the JVM ends.
"""

from __future__ import annotations

import os
import sys
from importlib.metadata import PackageNotFoundError, version

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from streamtable.hosts.session import enable


def main() -> None:
    """Answer the statements of the JVM that PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET lead to."""
    _compare(os.environ["STREAMTABLE_JAR_VERSION"])
    gateway = launch_gateway()  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    context = jvm.org.apache.spark.api.java.JavaSparkContext(jvm.org.apache.spark.SparkContext.getOrCreate())
    enable(SparkSession(SparkContext(conf=SparkConf(_jconf=context.getConf()), gateway=gateway, jsc=context)))
    sys.stdin.buffer.read()
    os._exit(0)  # without a word to the JVM, which may be gone


def _compare(jar: str) -> None:
    """Exit if the JVM's jar came with another version of this package, because their messages differ."""
    try:
        ours = version("streamtable")
    except PackageNotFoundError:  # a checkout that is on the path but not installed
        return
    if ours != jar:
        sys.exit(
            f"its streamtable is {ours}, the jar of this application is that of {jar}: pip install streamtable=={jar} there, "
            "or write the settings anew by the `streamtable settings` of that Python"
        )


if __name__ == "__main__":
    main()
