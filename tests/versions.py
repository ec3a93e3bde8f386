"""What a test needs of Spark: versions before that have not got it."""

from __future__ import annotations

import pytest
from pyspark import __version__ as spark_version

from streamtable.jvm.versions import minor

SPARK = minor(spark_version)


def is_since(version: str) -> bool:
    """Tell whether the installed Spark is this version, or a later one."""
    return _number(SPARK) >= _number(version)


def since(version: str, what: str) -> pytest.MarkDecorator:
    """Skip a test before a version of Spark, which is the first that has `what`."""
    return pytest.mark.skipif(not is_since(version), reason=f"Spark {SPARK} has no {what}")


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
