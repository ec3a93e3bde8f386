"""What a test needs of Spark that older versions have not got: tests and queries that need it are skipped there, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from pyspark import __version__ as spark_version

from streamtable.jvm import versions

SPARK = versions.minor(spark_version)
SINCE = {
    "CURRENT_PATH": "4.2",
    "DISTINCT ON": "4.2",
    "max_by(x, y, k)": "4.2",
    "QUALIFY": "4.2",
    "WITH RECURSIVE": "4.1",
    "v:field": "4.1",
    "CREATE STREAMING TABLE": "4.1",
    "CREATE MATERIALIZED VIEW": "4.1",
}
"""The words of SQL that Spark knows from a version on; docs/reference/versions.md names each."""


def is_since(version: str) -> bool:
    """Tell whether the installed Spark is this version, or a later one."""
    return versions.is_since(SPARK, version)


LACKING = tuple(words for words, version in SINCE.items() if not is_since(version))
"""The words that the installed Spark does not know."""


def needs(words: str) -> pytest.MarkDecorator:
    """Skip a test where Spark does not know these words, which are among those of SINCE."""
    return pytest.mark.skipif(not is_since(SINCE[words]), reason=f"Spark {SPARK} has no {words}")


def statements(texts: Iterable[str]) -> list[Any]:
    """Return SQL texts as parameters of a test, which is skipped for those that Spark does not know."""
    return [pytest.param(sql, marks=[needs(words) for words in LACKING if words in sql]) for sql in texts]


def known(queries: Mapping[str, str]) -> dict[str, str]:
    """Return the queries that Spark knows, of a test that runs many at once; the head of a run's report says what is left out."""
    return {name: sql for name, sql in queries.items() if not any(words in sql for words in LACKING)}
