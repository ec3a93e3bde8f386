"""The Python API: each method is its statement, with types."""

from __future__ import annotations

from datetime import datetime

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from tests.spark.statements import properties

from streamtable import InvalidStatement, StreamTableNotFound, StreamTables


def test_from_create_to_drop(shop: SparkSession) -> None:
    tables = StreamTables(shop)
    made = tables.create(
        "per_region",
        "SELECT region, sum(amount) FROM sales GROUP BY region",
        schedule="5m",
        mode="differential",
        columns={"region": "where", "total": None},
        comment="sales",
        properties={"team": "finance"},
    )
    assert shop.table("per_region").schema["region"].metadata["comment"] == "where"
    shop.sql("INSERT INTO sales VALUES (4, 'north', 5)")
    done = made.refresh()
    assert (done.action, done.rows_inserted, done.rows_deleted) == ("DIFFERENTIAL", 1, 1)
    expected = shop.createDataFrame([("north", 15), ("south", 40), (None, 30)], "region STRING, total BIGINT")
    assert_df_equality(made.to_df(), expected, ignore_row_order=True, ignore_metadata=True)
    assert made.refresh(full=True).action == "FULL"
    assert made.verify().ok
    history = made.history(limit=1)
    assert [(past.action, type(past.at)) for past in history] == [("FULL", datetime)]
    assert tables.history()[0] == history[0]
    assert all(finding.incremental for finding in made.explain())
    assert made.explain(delta=True)[-1].operator == "Delta SQL"

    reader = tables.create("regions", "SELECT region FROM per_region", schedule="CALCULATED", with_data=False)
    assert reader.refresh(cascade=True).action == "REINITIALIZE"
    assert [each.kind for each in reader.dependencies()] == ["stream table"]
    assert {each.name.rpartition(".")[2] for each in tables.list(like="per*|regions")} == {"per_region", "regions"}
    assert [each.schedule for each in tables.list_all() if each.name.endswith(".shop.regions")] == ["CALCULATED"]
    reader = reader.alter(
        schedule="CRON '0 6 * * *'",
        mode="FULL",
        query="SELECT region AS r FROM per_region",
        properties={"a": "b"},
        rename_to="names",
    )
    assert reader.name == "`names`" and reader.describe()["refresh_mode"] == "FULL"
    assert reader.describe(extended=True)["namespace"] == "`spark_catalog`.`shop`"
    assert properties(shop, "names") == {"a": "b"}
    assert "SCHEDULE CRON '0 6 * * *'" in tables.get("names").show_create()
    reader.suspend()
    assert reader.describe()["status"] == "SUSPENDED"
    reader.resume()
    made.drop(cascade=True)
    assert tables.list() == []
    made.drop(if_exists=True)


def test_what_is_refused(shop: SparkSession) -> None:
    tables = StreamTables(shop)
    with pytest.raises(InvalidStatement, match="DataFrame and not SQL text.*(?s:.*)pass the SELECT as text"):
        tables.create("t", shop.table("sales"))  # type: ignore[arg-type]
    made = tables.create("t", "SELECT id FROM sales")
    with pytest.raises(InvalidStatement, match="DataFrame and not SQL text"):
        made.alter(query=shop.table("sales"))  # type: ignore[arg-type]
    made.drop()
    with pytest.raises(InvalidStatement, match="use one of AUTO, DIFFERENTIAL, DIFFERENTIAL STRICT, FULL"):
        tables.create("t", "SELECT 1 AS a", mode="fast")
    with pytest.raises(InvalidStatement, match="use one of NONE, AUTO, ALL"):
        tables.create("t", "SELECT 1 AS a", state="some")
    with pytest.raises(StreamTableNotFound):
        tables.get("nobody")
    with pytest.raises(AnalysisException):
        tables.at("sales").to_df().select("nothing").collect()
