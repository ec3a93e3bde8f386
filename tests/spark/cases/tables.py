"""Stream tables whose statement is killed, or whose disk fails."""

from __future__ import annotations

from tests.spark.cases.case import QUERY, QUEUE, TABLE, Case

TABLES = {
    "CREATE": Case(TABLE, after=("SELECT * FROM st",), finally_=("DROP STREAM TABLE st",)),
    "CREATE AT LOCATION": Case(
        TABLE.replace(" AS", " LOCATION 'place' AS", 1), after=("SELECT * FROM st",), finally_=("DROP STREAM TABLE st",)
    ),
    "CREATE BACKFILL": Case(
        TABLE.replace(" AS", " BACKFILL FROM given AS", 1),
        before=(f"CREATE TABLE given USING delta AS {QUERY}",),
        after=("SELECT * FROM st",),
        finally_=("DROP STREAM TABLE st", "DROP TABLE given"),
    ),
    "CREATE OR REPLACE": Case(
        "CREATE OR REPLACE STREAM TABLE st AS SELECT id, amount FROM sales",
        before=(TABLE,),
        after=("SELECT * FROM st",),
        finally_=("DROP STREAM TABLE st",),
    ),
    "ALTER AS": Case(
        "ALTER STREAM TABLE st AS SELECT id, min(amount) AS most, count(*) AS n FROM sales GROUP BY id",
        before=(TABLE,),
        after=("SELECT * FROM st",),
        finally_=("DROP STREAM TABLE st",),
    ),
    "RENAME": Case(
        "ALTER STREAM TABLE st RENAME TO other",
        before=(TABLE, "CREATE STREAM TABLE above AS SELECT id FROM st"),
        after=("SELECT * FROM other", "SELECT * FROM above"),
        finally_=("DROP STREAM TABLE other CASCADE",),
    ),
    "DROP": Case("DROP STREAM TABLE st", before=(TABLE,)),
    "DROP CASCADE": Case("DROP STREAM TABLE st CASCADE", before=(TABLE, "CREATE STREAM TABLE above AS SELECT id FROM st")),
    "DROP AT LOCATION": Case("DROP STREAM TABLE st", before=(TABLE.replace(" AS", " LOCATION 'place' AS", 1),)),
}

OF_SPARK = {
    "DROP SCHEMA": Case(
        "DROP DATABASE IF EXISTS extra CASCADE",
        before=("CREATE DATABASE extra", TABLE.replace("st", "extra.st", 1), QUEUE.replace("jobs", "extra.jobs")),
        after=("SHOW DATABASES",),
    ),
    "COMPACTION": Case(
        "OPTIMIZE st",
        before=(TABLE, "INSERT INTO sales VALUES (3, 30)", "REFRESH STREAM TABLE st"),
        after=("SELECT * FROM st", "VERIFY STREAM TABLE st"),
        finally_=("DROP STREAM TABLE st", "DELETE FROM sales WHERE id = 3"),
    ),
    "CREATE OR REPLACE TABLE": Case(
        "CREATE OR REPLACE TABLE st USING delta AS SELECT id, amount FROM sales",
        before=(TABLE,),
        after=("SELECT * FROM st", "DROP STREAM TABLE IF EXISTS other"),
        finally_=("DROP TABLE st",),
    ),
}
"""Commands of Spark's and Delta's, whose errors are theirs."""
