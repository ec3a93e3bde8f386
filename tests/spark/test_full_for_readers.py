"""A full refresh of a table that others read brings only the rows that differ, so that one FULL does not make the chain FULL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.spark.statements import done

WHAT_IS_FULL = {
    "an operator without a rule": "SELECT region, percentile(amount, 0.5) AS m FROM sales GROUP BY region",
    "rows that come twice": "SELECT region, monotonic FROM (SELECT region, 1 AS monotonic FROM sales)",
    "values of all kinds": """SELECT id, named_struct('a', amount, 'b', array(region, NULL)) AS s, map('k', id) AS m,
        CAST(amount AS DOUBLE) * -0.0D AS zero, CAST(NULL AS BINARY) AS b, `order` FROM (SELECT *, 1 AS `order` FROM sales)""",
}


@pytest.mark.parametrize("query", WHAT_IS_FULL.values(), ids=WHAT_IS_FULL)
def test_one_full_refresh_does_not_make_the_readers_full(shop: SparkSession, query: str) -> None:
    shop.sql(
        "CREATE TABLE many USING delta AS SELECT id, CAST(id AS DECIMAL(10, 2)) AS amount, IF(id % 3 = 0, 'a', 'b') AS region "
        "FROM range(300)"
    )
    shop.sql(f"CREATE STREAM TABLE lower AS {query.replace('sales', 'many')}")
    columns = shop.table("lower").columns
    shop.sql(f"CREATE STREAM TABLE upper AS SELECT `{columns[0]}` FROM lower")
    shop.sql("INSERT INTO many VALUES (1000, 1000.5, 'c'), (1001, 0, 'c')")
    shop.sql("DELETE FROM many WHERE id = 7")
    (refreshed,) = shop.sql("REFRESH STREAM TABLE lower FULL").collect()
    assert refreshed["action"] == "FULL"
    assert refreshed["rows_inserted"] <= 4, refreshed
    assert refreshed["rows_deleted"] <= 2, refreshed
    assert done(shop, "REFRESH STREAM TABLE upper")[0] == "DIFFERENTIAL"
    assert_exact(shop, "lower", query.replace("sales", "many"))
    assert_exact(shop, "upper", f"SELECT `{columns[0]}` FROM ({query.replace('sales', 'many')})")
