"""Rows that lie together in a large file: what went is read without the rest of the file, and without losing any."""

from __future__ import annotations

from pyspark.sql import SparkSession
from tests.oracle.scenario import FEED, Scenario
from tests.spark.statements import vacuum
from tests.spark.work import Work

ROWS = 80_000
PAGE = 20_000  # Parquet's own limit

QUERY = "SELECT kind, count(*) AS n, count(a) AS na, sum(a) AS sa, count(b) AS nb, sum(b) AS sb FROM big GROUP BY kind"

FILL = f"""
    INSERT INTO big
    SELECT id % 7, nullif(id, 50000), CASE WHEN id NOT BETWEEN 45000 AND 55000 THEN CAST({ROWS} - id AS INT) END,
           concat(sha2(concat(id, 'x'), 512), sha2(concat(id, 'y'), 512))
    FROM range(0, {ROWS}, 1, 1)"""
"""One file of 20 MB: `a` grows but for one NULL, `b` falls and is NULL around it, `kind` is everywhere."""

STEPS = {
    "DELETE FROM big WHERE a BETWEEN 2500 AND 2600 OR a BETWEEN 18000 AND 19000": PAGE,
    "DELETE FROM big WHERE a IS NULL": ROWS,  # no bounds tell it from the others
    "RESTORE TABLE big TO VERSION AS OF 2": ROWS,  # what comes back lies everywhere
}
"""Changes, and how many rows of the file are read at most to find what went or came back."""


def test_rows_of_a_large_file(spark: SparkSession) -> None:
    mapped = f"{FEED}, 'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"
    with Scenario(spark) as scenario:
        spark.sql(f"CREATE TABLE big (kind BIGINT, a BIGINT, b INT, text STRING) USING delta TBLPROPERTIES ({mapped})")
        spark.sql(FILL)
        scenario.stream("kinds", QUERY)
        for step, most in STEPS.items():
            spark.sql(step)
            before = Work.so_far(spark)
            scenario.refresh("kinds")
            _, rows = before.since(spark)
            assert rows - ROWS <= most + 1000, step  # the comparison reads all rows, and there are states
        spark.sql("DELETE FROM big WHERE a < 100")
        spark.sql("REORG TABLE big APPLY (PURGE)")
        vacuum(spark, "big")
        assert "a file of the history is gone" in scenario.refresh("kinds", "REINITIALIZE")["reason"]
