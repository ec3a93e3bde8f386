"""The oracle: a stream table against its query, evaluated by Spark itself; shares no code with the product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import lit


def bag(spark: SparkSession, query: str) -> Counter[str]:
    """Return the rows of `query` with their multiplicities; values by their Python spelling, so that 1 and 1.0 differ."""
    return bag_of(spark.sql(query))


def bag_of(frame: DataFrame) -> Counter[str]:
    """Return the rows of `frame`, spelled as those of `bag`."""
    return Counter(map(spelled, frame.collect()))


def spelled(row: Sequence[Any]) -> str:
    """Spell a row so that those that are the same are spelled the same."""
    return repr(_plain(row))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted((repr(key), repr(_plain(each))) for key, each in value.items())
    if isinstance(value, (Row, list, tuple)):
        return [_plain(each) for each in value]
    return "NaN" if value != value else value


def assert_exact(spark: SparkSession, table: str, query: str) -> None:
    """Compare schema, as CREATE TABLE AS would give it, and bag of `table` with `query`."""
    contents, wanted = spark.table(table), spark.sql(query)
    assert [(f.name, f.dataType) for f in contents.schema] == [(f.name, f.dataType) for f in wanted.schema.toNullable()]
    # One plan and one job for both; each row says of which side it is.
    present, expected = Counter[str](), Counter[str]()
    for side, *row in contents.select(lit(True), "*").union(wanted.select(lit(False), "*")).collect():
        (present if side else expected)[spelled(row)] += 1
    assert present == expected, f"{table}: missing {expected - present}, surplus {present - expected}"
