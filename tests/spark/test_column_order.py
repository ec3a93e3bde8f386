"""The columns of a query without a SELECT on top stay in the order that Spark gives them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import done


@pytest.mark.parametrize("rest", ["WHERE true", "UNION ALL SELECT 1, 2, 3, 'a', 4, 5"])
def test_join_of_a_reordered_join_writes_each_value_into_its_own_column(shop: SparkSession, rest: str) -> None:
    shop.sql("CREATE OR REPLACE TABLE returned (r_id INT, why INT) USING delta")
    shop.sql("CREATE OR REPLACE TABLE wanted (w_id INT) USING delta")
    shop.sql("INSERT INTO wanted VALUES (1), (2)")
    inner = "SELECT r.why, r.r_id, s.id, s.region, s.amount FROM sales s JOIN returned r ON s.id = r.r_id"
    query = f"FROM ({inner}) p JOIN wanted ON p.id = wanted.w_id |> {rest}"
    shop.sql(f"CREATE STREAM TABLE st REFRESH MODE DIFFERENTIAL AS {query}")
    shop.sql("INSERT INTO returned VALUES (1, 77), (2, 88)")
    assert done(shop, "REFRESH STREAM TABLE st")[0] == "DIFFERENTIAL"
    assert_exact(shop, "st", query)
