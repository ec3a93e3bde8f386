"""Stream tables whose statement is killed, or whose disk fails."""

from __future__ import annotations

import json
from pathlib import Path

from tests.spark.cases.case import QUERY, QUEUE, TABLE, Case
from tests.spark.tampering import tamper

ROWS, DROP = ("SELECT * FROM st",), ("DROP STREAM TABLE st",)
KNOWN, NONE = ("SELECT name, status, refresh_mode, schedule FROM stream_tables()", *ROWS), ("SELECT name FROM stream_tables()",)
ABOVE = "CREATE STREAM TABLE above AS SELECT id FROM st"
MORE, LESS = "INSERT INTO sales VALUES (3, 30)", "DELETE FROM sales WHERE id = 3"
IMMEDIATE = TABLE.replace(" AS", " SCHEDULE IMMEDIATE AS", 1)
AT_LOCATION = TABLE.replace(" AS", " LOCATION 'place' AS", 1)


def tampered(warehouse: Path) -> None:
    """Commit another schedule to the table, as somebody does who may write its folder, but not the catalog."""
    first = (warehouse / "shop.db" / "st" / "_delta_log" / f"{0:020}.json").read_text()
    metadata = next(action["metaData"] for action in map(json.loads, first.splitlines()) if "metaData" in action)
    definition = metadata["configuration"]["streamtable.definition"]
    tamper(warehouse / "shop.db" / "st", **{"streamtable.definition": definition.replace("SCHEDULE MANUAL", "SCHEDULE '2h'", 1)})


TABLES = {
    "CREATE": Case(TABLE, after=ROWS, finally_=DROP),
    "CREATE AT LOCATION": Case(AT_LOCATION, after=ROWS, finally_=DROP),
    "CREATE BACKFILL": Case(
        TABLE.replace(" AS", " BACKFILL FROM given AS", 1),
        before=(f"CREATE TABLE given USING delta AS {QUERY}",),
        after=ROWS,
        finally_=(*DROP, "DROP TABLE given"),
    ),
    "CREATE IMMEDIATE": Case(IMMEDIATE, after=KNOWN, finally_=DROP),
    "CREATE OR REPLACE": Case(
        "CREATE OR REPLACE STREAM TABLE st AS SELECT id, amount FROM sales", before=(TABLE,), after=ROWS, finally_=DROP
    ),
    "REFRESH": Case(
        "REFRESH STREAM TABLE st",
        before=(TABLE, MORE),
        after=(*ROWS, "VERIFY STREAM TABLE st"),
        finally_=(*DROP, LESS),
    ),
    "ALTER AS": Case(
        "ALTER STREAM TABLE st AS SELECT id, min(amount) AS most, count(*) AS n FROM sales GROUP BY id",
        before=(TABLE,),
        after=ROWS,
        finally_=DROP,
    ),
    "ALTER SCHEDULE": Case("ALTER STREAM TABLE st SET SCHEDULE '1h'", before=(TABLE,), after=KNOWN, finally_=DROP),
    "ACCEPT DEFINITION": Case(
        "ALTER STREAM TABLE st ACCEPT DEFINITION",
        before=(TABLE, tampered),
        after=KNOWN,
        finally_=DROP,
        then=("REFRESH STREAM TABLE st",),
        refused=True,
    ),
    "RENAME": Case(
        "ALTER STREAM TABLE st RENAME TO other",
        before=(TABLE, ABOVE),
        after=("SELECT * FROM other", "SELECT * FROM above"),
        finally_=("DROP STREAM TABLE other CASCADE",),
        then=("REFRESH STREAM TABLE above",),
    ),
    "DROP": Case("DROP STREAM TABLE st", before=(TABLE,), after=NONE),
    "DROP CASCADE": Case("DROP STREAM TABLE st CASCADE", before=(TABLE, ABOVE), after=NONE),
    "DROP AT LOCATION": Case("DROP STREAM TABLE st", before=(AT_LOCATION,), after=NONE),
}

OF_SPARK = {
    "DROP SCHEMA": Case(
        "DROP DATABASE IF EXISTS extra CASCADE",
        before=("CREATE DATABASE extra", TABLE.replace("st", "extra.st", 1), QUEUE.replace("jobs", "extra.jobs")),
        after=("SHOW DATABASES", *NONE),
    ),
    "COMPACTION": Case(
        "OPTIMIZE st",
        before=(TABLE, MORE, "REFRESH STREAM TABLE st"),
        after=(*ROWS, "VERIFY STREAM TABLE st"),
        finally_=(*DROP, LESS),
    ),
    "WRITE BEFORE IMMEDIATE": Case(
        "UPDATE sales SET amount = 11 WHERE id = 1",
        before=(IMMEDIATE,),
        after=(*ROWS, "VERIFY STREAM TABLE st"),
        finally_=(*DROP, "UPDATE sales SET amount = 10 WHERE id = 1"),
    ),
    "CREATE OR REPLACE TABLE": Case(
        "CREATE OR REPLACE TABLE st USING delta AS SELECT id, amount FROM sales",
        before=(TABLE,),
        after=(*ROWS, "DROP STREAM TABLE IF EXISTS other", *NONE),
        finally_=("DROP TABLE st",),
    ),
}
"""Commands of Spark's and Delta's, whose errors are theirs."""
