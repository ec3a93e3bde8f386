"""The oracle: a stream table against its query, evaluated by Spark itself; shares no code with the product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql.functions import lit, unix_micros
from pyspark.sql.types import DataType, DateType, TimestampNTZType, TimestampType, VariantType


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


def contents(spark: SparkSession, table: str) -> DataFrame:
    """Return a Delta table as Delta reads the files that are in it by the checksum of its last commit.

    Delta lists them by three queries of its own for each reading of a table: five times what is left of a comparison without them.
    """
    read = spark.table(table)
    index: Any = read._jdf.queryExecution().analyzed().collectLeaves().head().relation().location()
    snapshot = index.getSnapshot()
    checksum = snapshot.checksumOpt()
    if checksum.isEmpty() or checksum.get().allFiles().isEmpty():  # more than fifty files, or another schema than before
        return read
    jvm: Any = spark._jvm
    listed = index.deltaLog().createDataFrame(snapshot, checksum.get().allFiles().get(), False, jvm.scala.Option.empty())
    dataset = jvm.org.apache.spark.sql.classic.Dataset  # Delta's frame is of whichever session is active
    return DataFrame(dataset.ofRows(spark._jsparkSession, listed.queryExecution().analyzed()), spark)


def rows_of(spark: SparkSession, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of a Delta table, or all, read by `contents` and in the order of ORDER BY ALL."""
    found = contents(spark, table).select(*columns or "*").collect()
    return sorted(map(tuple, found), key=lambda row: [(value is not None, value) for value in row])


def assert_exact(spark: SparkSession, table: str, query: str) -> None:
    """Compare schema, as CREATE TABLE AS would give it, and bag of `table` with `query`."""
    present, wanted = contents(spark, table), spark.sql(query)
    assert [(f.name, f.dataType) for f in present.schema] == [(f.name, f.dataType) for f in wanted.schema.toNullable()]
    # One plan and one job for both; each row says of which side it is.
    found, expected = Counter[str](), Counter[str]()
    for side, *row in _told(wanted.select(lit(False), "*").union(present.select(lit(True), "*"))).collect():
        (found if side else expected)[spelled(row)] += 1
    assert found == expected, f"{table}: missing {expected - found}, surplus {found - expected}"


def _told(frame: DataFrame) -> DataFrame:
    """Return times as numbers or text, because Python knows no year after 9999, and variants as JSON; whatever the columns are called."""
    numbered = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    return numbered.select(*(_plain_column(numbered[each.name], each.dataType) for each in numbered.schema))


def _plain_column(value: Column, kind: DataType) -> Column:
    match kind:
        case TimestampType():
            return unix_micros(value)
        case DateType() | TimestampNTZType() | VariantType():
            return value.cast("string")
        case _:
            return value
