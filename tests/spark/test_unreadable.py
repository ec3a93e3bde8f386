"""Tables that cannot be read: they hide no others, stop no scheduler, and say what is wrong to who asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession
from tests.pipeline import in_turn
from tests.spark.statements import answer, done, folder
from tests.spark.test_schedule import described, eventually, history, latest

from streamtable import start_scheduler
from streamtable.catalog.entries import entries
from streamtable.catalog.graph import dependencies
from streamtable.errors import DefinitionNotAccepted
from streamtable.jvm.gateway import java_class
from streamtable.observe.look import look

TOTALS = "SELECT region, sum(amount) AS total FROM sales GROUP BY region"


@contextmanager
def broken(spark: SparkSession, table: str, action: str) -> Iterator[None]:
    """Give a table one more version, which another writer might have written, and take it away again."""
    log = folder(spark, table) / "_delta_log"
    commit = log / f"{latest(spark, table) + 1:020}.json"
    commit.write_text(action)
    try:
        yield
    finally:
        commit.unlink()
        java_class(spark, "org.apache.spark.sql.delta.DeltaLog").clearCache()


def later_protocol(spark: SparkSession, table: str) -> str:
    features = {"readerFeatures": ["teleport"], "writerFeatures": ["teleport"]}
    return json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}})


def no_json(spark: SparkSession, table: str) -> str:
    return "{"


def later_format(spark: SparkSession, table: str) -> str:
    """Return the metadata of a stream table that a later version of streamtable has defined."""
    for line in (folder(spark, table) / "_delta_log" / f"{0:020}.json").read_text().splitlines():
        if "metaData" in (action := json.loads(line)):
            action["metaData"]["configuration"]["streamtable.format"] = "99"
            return json.dumps(action)
    raise AssertionError("the first version has metadata")


def names(spark: SparkSession) -> list[str]:
    """Return the names of the stream tables that can be read."""
    return [row[0].rpartition(".")[2] for row in answer(spark, "SHOW STREAM TABLES") if row[1] != "UNREADABLE"]


@pytest.mark.parametrize("how", in_turn([later_protocol, no_json, later_format], [no_json, later_format]))
def test_a_stream_table_that_cannot_be_read_hides_no_others(
    shop: SparkSession, caplog: pytest.LogCaptureFixture, how: Callable[[SparkSession, str], str]
) -> None:
    shop.sql(f"CREATE STREAM TABLE bad AS {TOTALS}")
    shop.sql(f"CREATE STREAM TABLE good AS {TOTALS}")
    shop.sql("CREATE STREAM TABLE above AS SELECT count(*) AS n FROM good")
    shop.sql("CREATE STREAM TABLE reader AS SELECT region FROM bad")
    with broken(shop, "bad", how(shop, "bad")):
        for _ in range(2):
            assert names(shop) == ["above", "good", "reader"]
        assert answer(shop, "SHOW STREAM TABLES LIKE 'bad'")[0][1] == "UNREADABLE"
        looked = look(shop)
        assert list(looked.unreadable) == ["spark_catalog.shop.bad"]
        assert {each[-1] for each in (table.name for table in looked.tables)} == {"above", "good", "reader"}
        assert answer(shop, "SELECT name FROM alerts() WHERE alert = 'UNREADABLE'") == [("spark_catalog.shop.bad",)]
        told = [record.getMessage() for record in caplog.records if record.name == "streamtable.catalog"]
        assert [text.partition(": ")[0] for text in told] == ["spark_catalog.shop.bad cannot be read and is left out"], "once"
        assert answer(shop, "SELECT name FROM alerts() WHERE alert = 'SOURCE_GONE'") == []
        assert done(shop, "REFRESH STREAM TABLE above CASCADE")[0] == "NO_DATA"
        with pytest.raises(
            DefinitionNotAccepted if how is later_format else Exception, match="teleport" if how is later_protocol else "."
        ):
            shop.sql("REFRESH STREAM TABLE bad")
        assert [row[:2] for row in answer(shop, "REFRESH STREAM TABLES")] == [
            ("spark_catalog.shop.above", "NO_DATA"),
            ("spark_catalog.shop.good", "NO_DATA"),
            ("spark_catalog.shop.bad", "SKIPPED"),
            ("spark_catalog.shop.reader", "SKIPPED"),
        ]
        assert [row[:2] for row in answer(shop, "VERIFY STREAM TABLES LIKE '*e*|bad'")] == [
            ("spark_catalog.shop.above", True),
            ("spark_catalog.shop.bad", False),
            ("spark_catalog.shop.reader", False),
        ]
        shop.sql("DROP STREAM TABLE reader")
        with pytest.raises(Exception, match="is read by spark_catalog.shop.above"):
            shop.sql("DROP STREAM TABLE good")
        assert answer(shop, "DROP STREAM TABLE good CASCADE") == [
            ("spark_catalog.shop.above", "DROPPED"),
            ("spark_catalog.shop.good", "DROPPED"),
        ]
    assert names(shop) == ["bad"]


@pytest.mark.parametrize("how", in_turn([later_protocol, no_json], [later_protocol]))
def test_a_source_that_cannot_be_read_stops_only_its_readers(
    hurried: SparkSession, how: Callable[[SparkSession, str], str]
) -> None:
    hurried.sql("CREATE TABLE rates (region STRING, rate INT) USING delta")
    hurried.sql("CREATE STREAM TABLE rated SCHEDULE '1s' AS SELECT s.id, r.rate FROM sales s JOIN rates r ON s.region = r.region")
    hurried.sql(f"CREATE STREAM TABLE good SCHEDULE '1s' AS {TOTALS}")
    hurried.sql(f"CREATE STREAM TABLE bad SCHEDULE '1s' AS {TOTALS}")
    with start_scheduler(hurried), broken(hurried, "rates", how(hurried, "rates")), broken(hurried, "bad", how(hurried, "bad")):
        eventually(lambda: described(hurried, "rated")["status"] == "SUSPENDED")
        before = latest(hurried, "good")
        hurried.sql("INSERT INTO sales VALUES (7, 'west', 70)")
        eventually(lambda: latest(hurried, "good") > before)
        assert history(hurried, "rated")[-1][0] == "FAILED"
        state = "SELECT state FROM source_health('rated') WHERE source = 'spark_catalog.shop.rates'"
        assert answer(hurried, state) == [("UNREADABLE",)]
        kinds = "SELECT alert FROM alerts('rated') WHERE alert LIKE 'SOURCE%'"
        assert answer(hurried, kinds) == [("SOURCE_UNREADABLE",)]
    hurried.sql("ALTER STREAM TABLE rated RESUME")
    assert done(hurried, "REFRESH STREAM TABLE rated")[0] != "FAILED"
    hurried.sql("DROP STREAM TABLE rated")
    hurried.sql("DROP TABLE rates")


@pytest.fixture
def elsewhere(shop: SparkSession) -> Iterator[SparkSession]:
    """Return the shop with another catalog, which can be made the current one."""
    shop.conf.set("spark.sql.catalog.elsewhere", "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog")
    shop.conf.set("spark.sql.catalog.elsewhere.url", "jdbc:derby:memory:elsewhere;create=true")
    shop.conf.set("spark.sql.catalog.elsewhere.driver", "org.apache.derby.iapi.jdbc.AutoloadedDriver")
    yield shop
    shop.sql("USE spark_catalog.shop")


def test_another_current_catalog_hides_no_stream_table(elsewhere: SparkSession) -> None:
    spark = elsewhere
    spark.sql(f"CREATE STREAM TABLE low AS {TOTALS}")
    spark.sql("CREATE STREAM TABLE high SCHEDULE '1s' AS SELECT count(*) AS n FROM low")
    spark.sql("INSERT INTO sales VALUES (8, 'east', 80)")
    spark.sql("USE elsewhere")
    assert [each.definition.name for each in entries(spark)] == ["spark_catalog.shop.high", "spark_catalog.shop.low"]
    assert len(dependencies(spark).edges) == 2
    assert done(spark, "REFRESH STREAM TABLE spark_catalog.shop.high CASCADE")[0] == "DIFFERENTIAL"
    assert answer(spark, "SELECT * FROM spark_catalog.shop.high") == [(4,)]
    with pytest.raises(Exception, match="is read by spark_catalog.shop.high"):
        spark.sql("DROP STREAM TABLE spark_catalog.shop.low")
    spark.sql(f"CREATE STREAM TABLE spark_catalog.shop.third AS {TOTALS.replace('sales', 'spark_catalog.shop.sales')}")
    spark.sql("ALTER STREAM TABLE spark_catalog.shop.low RENAME TO spark_catalog.shop.lowest")
    spark.sql("DROP STREAM TABLE spark_catalog.shop.lowest CASCADE")
    assert [each.definition.name for each in entries(spark)] == ["spark_catalog.shop.third"]
