"""Names and paths that lead to the folder of a stream table, into it or above it: nothing of Spark's takes its files along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from tests.spark.statements import answer, folder

from streamtable.errors import DirectWriteRefused, InvalidStatement

QUERY = "SELECT id, region FROM sales"


@pytest.fixture
def st(shop: SparkSession) -> Iterator[Path]:
    """Return the folder of a stream table, which is whole afterwards."""
    shop.sql(f"CREATE STREAM TABLE st AS {QUERY}")
    place = folder(shop, "st")
    before = sorted(place.rglob("*"))
    yield place
    assert sorted(place.rglob("*")) == before
    assert answer(shop, "VERIFY STREAM TABLE st")[0][1] is True


@contextmanager
def as_without_streamtable(spark: SparkSession) -> Iterator[None]:
    """Let statements pass as a session does that does not know us."""
    spark.sparkContext.setLocalProperty("streamtable.engine", "true")
    yield
    spark.sparkContext.setLocalProperty("streamtable.engine", None)  # type: ignore[arg-type]


WRITES = (
    "CREATE TABLE c (id INT) USING parquet LOCATION '{st}'",
    "CREATE OR REPLACE TABLE c USING delta LOCATION '{st}' AS SELECT 9 AS id, 'x' AS region",
    "CREATE OR REPLACE TABLE c (id INT) USING delta LOCATION '{st}'",
    "INSERT OVERWRITE DIRECTORY '{st}' USING parquet SELECT 9 AS id",
    "INSERT OVERWRITE DIRECTORY '{st}/inner' USING csv SELECT 9 AS id",
    "INSERT OVERWRITE LOCAL DIRECTORY '{st}' STORED AS PARQUET SELECT 9 AS id",
    "INSERT OVERWRITE files VALUES (9)",
    "INSERT INTO files VALUES (9)",
    "ALTER TABLE other SET LOCATION '{st}'",
    "ALTER TABLE parts ADD PARTITION (k = 1) LOCATION '{st}'",
    "ALTER TABLE parts PARTITION (k = 2) SET LOCATION '{st}'",
    "LOAD DATA INPATH '{st}/part-*.parquet' INTO TABLE hive",
    "LOAD DATA INPATH '{home}/s*/part-*.parquet' INTO TABLE hive",
    "INSERT OVERWRITE DIRECTORY '{st}/_delta_log' USING csv SELECT 9 AS id",
    "INSERT OVERWRITE DIRECTORY '{home}' USING csv SELECT 9 AS id",
    "INSERT OVERWRITE inner VALUES ('x')",
    "ALTER TABLE other SET LOCATION '{home}'",
    "ALTER TABLE parts ADD PARTITION (k = 1) LOCATION '{home}'",
)


def test_no_write_by_another_name_or_format_goes_into_the_folder(shop: SparkSession, st: Path) -> None:
    with as_without_streamtable(shop):
        shop.sql(f"CREATE TABLE files (id INT) USING parquet LOCATION '{st}'")
        shop.sql(f"CREATE TABLE inner (id STRING) STORED AS TEXTFILE LOCATION '{st}/region=west'")
    shop.sql("CREATE TABLE other (id INT) USING parquet")
    shop.sql("CREATE TABLE parts (id INT, k INT) USING parquet PARTITIONED BY (k)")
    shop.sql("ALTER TABLE parts ADD PARTITION (k = 2)")
    shop.sql("CREATE TABLE hive (id INT) STORED AS PARQUET")
    for write in WRITES:
        with pytest.raises(DirectWriteRefused, match=r"shop\.st"):
            shop.sql(write.format(st=st, home=st.parent))
    shop.sql("INSERT OVERWRITE other VALUES (1)")
    shop.sql(f"INSERT OVERWRITE DIRECTORY '{st.parent}/beside' USING csv SELECT 9 AS id")
    shop.sql("DROP TABLE inner")
    (st / "region=west").rmdir()  # made by Spark for the name
    shop.sql("DROP TABLE files")  # of a table at a LOCATION, the name goes alone


FRAMES: dict[str, Callable[[DataFrame, str], object]] = {
    "parquet": lambda rows, st: rows.write.mode("overwrite").parquet(st),
    "csv, append": lambda rows, st: rows.write.mode("append").csv(st),
    "saveAsTable": lambda rows, st: rows.write.format("delta").option("path", st).mode("overwrite").saveAsTable("c"),
    "writeTo": lambda rows, st: rows.writeTo("c").tableProperty("location", st).using("delta").createOrReplace(),
    "DeltaTable": lambda rows, st: (
        DeltaTable.createOrReplace(rows.sparkSession).tableName("c").location(st).addColumn("id", "INT").execute()
    ),
}


def test_no_frame_goes_into_the_folder(shop: SparkSession, st: Path) -> None:
    for write in FRAMES.values():
        with pytest.raises(DirectWriteRefused, match=r"shop\.st"):
            write(shop.range(1), str(st))


@pytest.mark.parametrize("place", ["{st}", "{home}"])
def test_a_name_of_another_format_that_was_led_there_takes_no_files_along(shop: SparkSession, st: Path, place: str) -> None:
    """Spark deletes the files of a managed table with its name."""
    shop.sql("CREATE TABLE led (id INT) USING parquet")
    own = folder(shop, "sales").parent / "led"
    with as_without_streamtable(shop):
        shop.sql(f"ALTER TABLE led SET LOCATION '{place.format(st=st, home=st.parent)}'")
    with pytest.raises(DirectWriteRefused, match=r"files of the stream table .*st(.|\n)*point this name at another folder"):
        shop.sql("DROP TABLE led")
    shop.sql(f"ALTER TABLE led SET LOCATION '{own}'")
    shop.sql("DROP TABLE led")


@pytest.mark.parametrize("above", ["", "first"])
def test_a_schema_at_the_place_of_another_takes_nothing_of_ours_along(shop: SparkSession, tmp_path: Path, above: str) -> None:
    shop.sql(f"CREATE DATABASE first LOCATION '{tmp_path}/first'")
    shop.sql(f"CREATE STREAM TABLE first.st AS {QUERY}")
    shop.sql(f"CREATE DATABASE second LOCATION '{tmp_path}/{above}'")
    for drop in ("DROP DATABASE second", "DROP SCHEMA IF EXISTS second CASCADE"):
        with pytest.raises(DirectWriteRefused, match=r"files of the stream table .*first.*st"):
            shop.sql(drop)
    assert answer(shop, "VERIFY STREAM TABLE first.st")[0][1] is True
    shop.sql("DROP STREAM TABLE first.st")
    shop.sql("CREATE QUEUE first.jobs (body STRING)")
    with pytest.raises(DirectWriteRefused, match=r"files of the queue .*first.*jobs"):
        shop.sql("DROP SCHEMA second CASCADE")
    shop.sql("DROP QUEUE first.jobs")
    shop.sql("DROP DATABASE second")
    shop.sql("DROP DATABASE first")


def test_no_stream_table_is_made_in_the_folder_of_a_delta_table(shop: SparkSession, st: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder(shop, "sales"))
    for place in (st / "inner", st / "a" / "b", folder(shop, "sales") / "inner", tmp_path / "link" / "inner"):
        with pytest.raises(InvalidStatement, match="in the folder of the Delta table at"):
            shop.sql(f"CREATE STREAM TABLE other LOCATION '{place}' AS {QUERY}")
    assert [row[1] for row in answer(shop, "SHOW TABLES IN shop")] == ["sales", "st"]
