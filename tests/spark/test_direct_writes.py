"""A stream table is written by its refreshes only; everything else that a Delta table allows stays allowed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from tests.pipeline import in_turn

from streamtable.catalog.accepted import accept
from streamtable.errors import DirectWriteRefused
from streamtable.jvm.gateway import java_class

pytestmark = pytest.mark.core

ROWS = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]
COLUMNS = ["id", "name", "amount"]
Action = Callable[[SparkSession, str], object]


def rows(spark: SparkSession, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.table(name).collect())


def version(spark: SparkSession, name: str) -> int:
    """Return the table's latest version, straight from its log: a query for it would cost more than the tests."""
    jvm = spark._jvm
    assert jvm is not None
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, f"{spark_warehouse(spark)}/{name}")
    found = log.update(False, jvm.scala.Option.empty(), jvm.scala.Option.empty()).version()
    assert isinstance(found, int)
    return found


def spark_warehouse(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:")


def location(spark: SparkSession, name: str) -> str:
    return f"{spark_warehouse(spark)}/{name}"


def create(spark: SparkSession, name: str, properties: str) -> None:
    spark.sql(
        f"""CREATE TABLE {name} (id INT, name STRING, amount INT) USING delta PARTITIONED BY (amount)
        TBLPROPERTIES ({properties} 'delta.feature.allowColumnDefaults' = 'supported')"""
    )
    spark.createDataFrame(ROWS, "id INT, name STRING, amount INT").createOrReplaceTempView("direct_write_rows")
    spark.sparkContext.setLocalProperty("streamtable.engine", "true")
    try:
        spark.sql(f"INSERT INTO {name} SELECT * FROM direct_write_rows WHERE id < 3")
        spark.sql(f"INSERT INTO {name} SELECT * FROM direct_write_rows WHERE id = 3")
    finally:
        spark.sparkContext.setLocalProperty("streamtable.engine", None)  # type: ignore[arg-type]


def create_ours(spark: SparkSession, name: str) -> None:
    """Make a table that the catalog takes for a stream table."""
    full = ("spark_catalog", "default", name)
    create(spark, name, f"'streamtable.name' = '{json.dumps(full)}',")
    accept(spark, full, {"streamtable.format": "1"})


@pytest.fixture(scope="module")
def stream_table(spark: SparkSession) -> Iterator[str]:
    """Return the name of a Delta table that the catalog takes for a stream table."""
    create_ours(spark, "written_st")
    yield "written_st"
    engine_drop(spark, "written_st")


@pytest.fixture
def plain_table(spark: SparkSession) -> Iterator[str]:
    """Return the name of an ordinary Delta table of the same shape, made anew only when a test has bent it."""
    spark.sql("DROP TABLE IF EXISTS written_renamed")
    if not (spark.catalog.tableExists("written_plain") and spark.table("written_plain").columns == COLUMNS):
        shutil.rmtree(location(spark, "written_plain"), ignore_errors=True)  # DROP TABLE leaves the folder behind
        spark.sql("DROP TABLE IF EXISTS written_plain")
        create(spark, "written_plain", "")
    yield "written_plain"


def engine_drop(spark: SparkSession, name: str) -> None:
    spark.sparkContext.setLocalProperty("streamtable.engine", "true")
    try:
        spark.sql(f"DROP TABLE {name}")
    finally:
        spark.sparkContext.setLocalProperty("streamtable.engine", None)  # type: ignore[arg-type]


def sql(text: str) -> Action:
    """Return an action that runs `text` with {t} replaced by the table, {p} by its folder."""
    return lambda spark, name: spark.sql(text.format(t=name, p=location(spark, name)))


def one_row(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(9, "z", 90)], "id INT, name STRING, amount INT")


REFRESH = "REFRESH STREAM TABLE"
# What the action is called, the statement that its error must name, the action.
WRITES: dict[str, tuple[str, Action]] = {
    "insert": (REFRESH, sql("INSERT INTO {t} VALUES (9, 'z', 90)")),
    "insert by name": (REFRESH, sql("INSERT INTO {t} (amount, id, name) VALUES (90, 9, 'z')")),
    "insert into the path": (REFRESH, sql("INSERT INTO delta.`{p}` VALUES (9, 'z', 90)")),
    "insert with a CTE": (REFRESH, sql("WITH q AS (SELECT 9, 'z', 90) INSERT INTO {t} SELECT * FROM q")),
    "several inserts": (
        REFRESH,
        sql("FROM direct_write_rows INSERT INTO {t} SELECT * INSERT INTO {t} SELECT id + 9, name, amount"),
    ),
    "insert overwrite": (REFRESH, sql("INSERT OVERWRITE {t} VALUES (9, 'z', 90)")),
    "insert replace where": (REFRESH, sql("INSERT INTO {t} REPLACE WHERE id = 9 VALUES (9, 'z', 90)")),
    "update": (REFRESH, sql("UPDATE {t} SET name = 'x' WHERE id = 1")),
    "update all": (REFRESH, sql("UPDATE {t} SET name = 'x'")),
    "delete": (REFRESH, sql("DELETE FROM {t} WHERE id = 1")),
    "delete all": (REFRESH, sql("DELETE FROM {t}")),
    "delete by path": (REFRESH, sql("DELETE FROM delta.`{p}` WHERE id = 1")),
    "merge": (
        REFRESH,
        sql("MERGE INTO {t} USING direct_write_rows r ON {t}.id = r.id WHEN MATCHED THEN UPDATE SET name = 'x'"),
    ),
    "insert only merge": (
        REFRESH,
        sql("MERGE INTO {t} USING direct_write_rows r ON {t}.id = r.id + 9 WHEN NOT MATCHED THEN INSERT *"),
    ),
    "truncate": (REFRESH, sql("TRUNCATE TABLE {t}")),
    "restore": (REFRESH, sql("RESTORE TABLE {t} TO VERSION AS OF 1")),
    "add column": ("CREATE OR REPLACE STREAM TABLE", sql("ALTER TABLE {t} ADD COLUMNS (more INT)")),
    "add constraint": ("CREATE OR REPLACE STREAM TABLE", sql("ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)")),
    "rename": ("RENAME TO", sql("ALTER TABLE {t} RENAME TO written_renamed")),
    "replace by a table that must be there": ("CREATE OR REPLACE STREAM TABLE", sql("REPLACE TABLE {t} (id INT) USING delta")),
    "replace the path": (
        "CREATE OR REPLACE STREAM TABLE",
        sql("CREATE OR REPLACE TABLE delta.`{p}` USING delta AS SELECT 1 AS id"),
    ),
    "replace by clone": (
        "CREATE OR REPLACE STREAM TABLE",
        sql("CREATE OR REPLACE TABLE {t} SHALLOW CLONE direct_write_source"),
    ),
    "save as table, append": (
        REFRESH,
        lambda spark, name: one_row(spark).write.format("delta").mode("append").saveAsTable(name),
    ),
    "save as table, overwrite": (
        "STREAM TABLE",
        lambda spark, name: one_row(spark).write.format("delta").mode("overwrite").saveAsTable(name),
    ),
    "save to the path": (
        REFRESH,
        lambda spark, name: one_row(spark).write.format("delta").mode("append").save(location(spark, name)),
    ),
    "overwrite the path": (
        REFRESH,
        lambda spark, name: one_row(spark).write.format("delta").mode("overwrite").save(location(spark, name)),
    ),
    "insertInto": (REFRESH, lambda spark, name: one_row(spark).write.insertInto(name)),
    "insertInto, overwrite": (REFRESH, lambda spark, name: one_row(spark).write.insertInto(name, overwrite=True)),
    "writeTo append": (REFRESH, lambda spark, name: one_row(spark).writeTo(name).append()),
    "writeTo overwrite": (REFRESH, lambda spark, name: one_row(spark).writeTo(name).overwrite(col("id") == 9)),
    "writeTo overwritePartitions": (REFRESH, lambda spark, name: one_row(spark).writeTo(name).overwritePartitions()),
    "writeTo replace": (
        "STREAM TABLE",
        lambda spark, name: one_row(spark).writeTo(name).using("delta").createOrReplace(),
    ),
    "DeltaTable.delete": (REFRESH, lambda spark, name: DeltaTable.forName(spark, name).delete("id = 1")),
    "DeltaTable.update": (
        REFRESH,
        lambda spark, name: DeltaTable.forName(spark, name).update("id = 1", {"name": "'x'"}),
    ),
    "DeltaTable.merge": (
        REFRESH,
        lambda spark, name: (
            DeltaTable.forPath(spark, location(spark, name))
            .merge(one_row(spark), "false")
            .whenNotMatchedInsert(values={"id": "9", "name": "'z'", "amount": "90"})
            .execute()
        ),
    ),
    "DeltaTable.restore": (REFRESH, lambda spark, name: DeltaTable.forName(spark, name).restoreToVersion(1)),
    "DeltaTable.createOrReplace": (
        "CREATE OR REPLACE STREAM TABLE",
        lambda spark, name: DeltaTable.createOrReplace(spark).tableName(name).addColumn("id", "INT").execute(),
    ),
    "DeltaTable.addFeatureSupport": (
        "CREATE OR REPLACE STREAM TABLE",
        lambda spark, name: DeltaTable.forName(spark, name).addFeatureSupport("domainMetadata"),
    ),
}


@pytest.fixture(scope="module", autouse=True)
def source_of_clones(spark: SparkSession) -> Iterator[None]:
    spark.sql("CREATE TABLE direct_write_source USING delta AS SELECT 1 AS id")
    yield
    spark.sql("DROP TABLE direct_write_source")


@pytest.mark.parametrize("write", WRITES)
def test_write_to_a_stream_table_is_refused_and_changes_nothing(spark: SparkSession, stream_table: str, write: str) -> None:
    remedy, action = WRITES[write]
    before = version(spark, stream_table)
    with pytest.raises(DirectWriteRefused, match="STREAMTABLE_DIRECT_WRITE") as refused:
        action(spark, stream_table)
    assert remedy in str(refused.value)
    assert refused.value.getSqlState() == "42809"
    assert version(spark, stream_table) == before


ALLOWED = {
    *("insert", "insert into the path", "insert overwrite", "update", "delete", "merge", "truncate", "restore"),
    *("add column", "rename", "replace the path", "replace by clone"),
    *("save as table, append", "overwrite the path", "insertInto", "writeTo append", "writeTo replace"),
    *("DeltaTable.merge", "DeltaTable.createOrReplace", "DeltaTable.addFeatureSupport"),
}
"""One of each command that Spark makes of them, and of each way to say it; `./run fuzz -k ordinary_table` has all."""


@pytest.mark.parametrize("write", in_turn(WRITES, ALLOWED))
def test_the_same_write_to_an_ordinary_table_works(spark: SparkSession, plain_table: str, write: str) -> None:
    if write == "replace by clone":
        spark.sql(f"DELETE FROM {plain_table}")  # Delta clones into empty tables only
    WRITES[write][1](spark, plain_table)


@pytest.mark.parametrize(
    "allowed",
    [
        "SELECT * FROM {t}",
        "SELECT * FROM delta.`{p}`",
        "DESCRIBE EXTENDED {t}",
        "DESCRIBE DETAIL {t}",
        "DESCRIBE HISTORY {t}",
        "SHOW TBLPROPERTIES {t}",
        "OPTIMIZE {t}",
        "OPTIMIZE {t} ZORDER BY (id)",
        "VACUUM {t} DRY RUN",
        "REORG TABLE {t} APPLY (PURGE)",
        "GENERATE symlink_format_manifest FOR TABLE {t}",
        "CREATE TABLE IF NOT EXISTS {t} (id INT) USING delta",
        "INSERT INTO direct_write_source SELECT id FROM {t}",
        "CREATE OR REPLACE TABLE direct_write_copy USING delta AS SELECT * FROM {t}",
        "CACHE TABLE {t}",
        "UNCACHE TABLE {t}",
        "REFRESH TABLE {t}",
    ],
)
def test_what_writes_nothing_of_the_users_stays_allowed(spark: SparkSession, stream_table: str, allowed: str) -> None:
    sql(allowed)(spark, stream_table)


@pytest.mark.parametrize(
    "unknown",
    [
        "MSCK REPAIR TABLE {t}",
        "ALTER TABLE {t} RECOVER PARTITIONS",
        "CREATE INDEX i ON {t} (id)",
        "LOAD DATA LOCAL INPATH '/nowhere' INTO TABLE {t}",
    ],
)
def test_a_command_that_is_on_no_list_is_refused(spark: SparkSession, stream_table: str, unknown: str) -> None:
    with pytest.raises(DirectWriteRefused, match=r"the command \w+ on .*written_st") as refused:
        sql(unknown)(spark, stream_table)
    assert "does not know the command" in str(refused.value)


def test_a_merge_that_reads_a_stream_table_is_no_write_to_it(spark: SparkSession, stream_table: str, plain_table: str) -> None:
    on = f"{plain_table} AS t USING {stream_table} AS s ON t.id = s.id"
    spark.sql(f"MERGE INTO {on} WHEN MATCHED THEN UPDATE SET name = s.name")
    source = spark.table(stream_table).alias("s")
    merge = DeltaTable.forName(spark, plain_table).alias("t").merge(source, "t.id = s.id")
    merge.whenMatchedUpdate(set={"name": "s.name"}).execute()


def test_a_streaming_write_is_refused(spark: SparkSession, stream_table: str, tmp_path: Path) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("int(value) id", "'z' name", "90 amount").writeStream
    with pytest.raises(DirectWriteRefused):
        stream.format("delta").option("checkpointLocation", str(tmp_path)).toTable(stream_table)
    with pytest.raises(DirectWriteRefused):
        stream.format("delta").option("checkpointLocation", str(tmp_path)).start(location(spark, stream_table))


def test_explain_of_a_refused_write_is_refused_like_the_write(spark: SparkSession, stream_table: str) -> None:
    lines = spark.sql(f"EXPLAIN INSERT INTO {stream_table} VALUES (9, 'z', 90)").collect()
    assert any("STREAMTABLE_DIRECT_WRITE" in row[0] for row in lines)


def test_the_engine_passes_and_only_where_the_property_is_set(spark: SparkSession) -> None:
    create_ours(spark, "engine_st")  # inserts as the engine
    assert rows(spark, "engine_st") == ROWS
    spark.sparkContext.setLocalProperty("streamtable.engine", "false")
    with pytest.raises(DirectWriteRefused):
        spark.sql("DELETE FROM engine_st")
    engine_drop(spark, "engine_st")
    assert not spark.catalog.tableExists("engine_st")


def test_a_table_whose_folder_is_gone_can_be_dropped(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE folderless USING delta LOCATION '{tmp_path / 'gone'}' AS SELECT 1 AS id")
    shutil.rmtree(tmp_path / "gone")
    spark.sql("DROP TABLE folderless")
    assert not spark.catalog.tableExists("folderless")


def test_a_table_whose_files_cannot_be_looked_at_can_be_dropped(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE unreachable USING delta LOCATION '{tmp_path / 'broken'}' AS SELECT 1 AS id")
    (tmp_path / "broken" / "_delta_log" / f"{1:020}.json").write_text("{")
    java_class(spark, "org.apache.spark.sql.delta.DeltaLog").clearCache()
    with pytest.raises(Exception, match="(?i)json"):
        spark.sql("CREATE OR REPLACE TABLE unreachable USING delta AS SELECT 2 AS id")
    spark.sql("DROP TABLE unreachable")
    assert not spark.catalog.tableExists("unreachable")


def test_a_table_that_another_catalog_cannot_load_can_be_dropped(spark: SparkSession) -> None:
    url, loaded = "jdbc:derby:memory:others", java_class(spark, "java.sql.DriverManager")
    types = "CREATE TYPE price EXTERNAL NAME 'java.math.MathContext' LANGUAGE JAVA"
    connection = loaded.getConnection(f"{url};create=true")
    for statement in (types, "CREATE TABLE t (id INT, p price)"):
        connection.createStatement().execute(statement)
    settings = {"": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog", ".url": url}
    settings[".driver"] = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    try:
        for key, value in settings.items():
            spark.conf.set(f"spark.sql.catalog.others{key}", value)
        with pytest.raises(Exception, match="LOAD_TABLE"):
            spark.table("others.APP.T")
        spark.sql("DROP TABLE others.APP.T")
        assert not spark.sql("SHOW TABLES IN others.APP").collect()
    finally:
        for key in settings:
            spark.conf.unset(f"spark.sql.catalog.others{key}")
        connection.close()


def test_dropping_what_does_not_exist_is_sparks_business(spark: SparkSession) -> None:
    spark.sql("DROP TABLE IF EXISTS never_there")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("DROP TABLE never_there")
