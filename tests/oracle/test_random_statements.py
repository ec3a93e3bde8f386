"""Statements with random slips: each does what it says or is refused for a reason; no internal error, nothing half made."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from streamtable.errors import InternalError, StreamTableError

STATEMENTS = (
    "CREATE STREAM TABLE new SCHEDULE '5m' REFRESH MODE DIFFERENTIAL AS SELECT k, count(*) AS n FROM l GROUP BY k",
    "CREATE OR REPLACE STREAM TABLE a (x COMMENT 'key', y) SCHEDULE CRON '*/5 * * * *' AT TIME ZONE 'Europe/Berlin' AS SELECT k, v FROM l",
    "CREATE STREAM TABLE IF NOT EXISTS new REFRESH MODE AUTO WITH NO DATA PARTITIONED BY (k) COMMENT 'c' AS SELECT k, v FROM l WHERE v > 1",
    "CREATE STREAM TABLE new CLUSTER BY (k) TBLPROPERTIES ('owner' = 'me') AS SELECT l.k, w FROM l JOIN r ON l.k = r.k",
    "CREATE STREAM TABLE new AS SELECT k, sum(n) OVER (ORDER BY k) AS s FROM a WHERE k IN (SELECT k FROM r) ORDER BY k LIMIT 3",
    "ALTER STREAM TABLE a SET SCHEDULE '1h30m'",
    "ALTER STREAM TABLE a SET REFRESH MODE FULL",
    "ALTER STREAM TABLE b RENAME TO c",
    "ALTER STREAM TABLE b SUSPEND",
    "ALTER STREAM TABLE b RESUME",
    "ALTER STREAM TABLE a SET TBLPROPERTIES ('delta.checkpointInterval' = '20')",
    "ALTER STREAM TABLE a AS SELECT k, count(*) AS n FROM l WHERE k > 0 GROUP BY k",
    "REFRESH STREAM TABLE b CASCADE",
    "REFRESH STREAM TABLE a FULL",
    "DROP STREAM TABLE IF EXISTS a CASCADE",
    "SHOW STREAM TABLES LIKE '*'",
    "DESCRIBE STREAM TABLE EXTENDED a",
    "SHOW CREATE STREAM TABLE b",
    "SHOW REFRESH HISTORY FOR a LIMIT 3",
    "SHOW STREAM TABLE DEPENDENCIES FOR b",
    "EXPLAIN DELTA STREAM TABLE b",
    "EXPLAIN CREATE STREAM TABLE new AS SELECT DISTINCT v FROM l",
    "VERIFY STREAM TABLE b",
)
TOKENS = sorted({token for statement in STATEMENTS for token in re.findall(r"'[^']*'|\w+|\S", statement)})
ODD = ("''", "`", "\\", "/*", "--", "0", "-1", "NULL", "'", '"', "é", ";", "(", "nothing", "`a.b`", "x.y.z.w")
_databases = count()


def slipped(rnd: random.Random, statement: str) -> str:
    """Return the statement with up to three words lost, doubled, exchanged or taken from elsewhere."""
    words = re.findall(r"'[^']*'|\w+|\S", statement)
    for _ in range(rnd.randrange(4)):
        place = rnd.randrange(len(words))
        match rnd.randrange(5):
            case 0:
                del words[place]
            case 1:
                words.insert(place, words[place])
            case 2:
                other = rnd.randrange(len(words))
                words[place], words[other] = words[other], words[place]
            case 3:
                words[place] = rnd.choice(TOKENS)
            case _:
                words.insert(place, rnd.choice(ODD))
        if not words:
            return ""
    return " ".join(words)


@pytest.fixture
def place(spark: SparkSession) -> Iterator[Path]:
    """Make two base tables, a stream table `a` and one on top of it, `b`; return the folder of their database."""
    name = f"slips_{next(_databases)}"
    spark.sql(f"CREATE DATABASE {name}")
    spark.sql(f"USE {name}")
    where = spark.sql(f"DESCRIBE DATABASE {name}").where("info_name = 'Location'").collect()[0]["info_value"]
    spark.sql("CREATE TABLE l (k INT, v INT) USING delta")
    spark.sql("CREATE TABLE r (k INT, w INT) USING delta")
    spark.sql("INSERT INTO l VALUES (1, 1), (1, 2), (2, NULL)")
    spark.sql("INSERT INTO r VALUES (1, 3)")
    spark.sql("CREATE STREAM TABLE a AS SELECT k, count(*) AS n FROM l GROUP BY k")
    spark.sql("CREATE STREAM TABLE b AS SELECT n, count(*) AS m FROM a GROUP BY n")
    yield Path(where.removeprefix("file:"))
    spark.sql("USE default")
    spark.sql(f"DROP DATABASE {name} CASCADE")


def state(spark: SparkSession, place: Path) -> tuple[set[str], set[str], list[tuple[object, ...]]]:
    """Return what a statement that fails must leave alone."""
    listed = {row["tableName"] for row in spark.sql("SHOW TABLES").collect()}
    definitions = [tuple(row) for row in spark.sql("SHOW STREAM TABLES").collect()]
    return listed, {each.name for each in place.iterdir()}, definitions


def check(spark: SparkSession, place: Path, seed: int, number: int) -> None:
    rnd = random.Random(seed)
    refused = 0
    for _ in range(number):
        statement = slipped(rnd, rnd.choice(STATEMENTS))
        before = state(spark, place)
        try:
            spark.sql(statement).collect()
        except InternalError as error:
            raise AssertionError(f"{statement}\n{error}") from error
        except (StreamTableError, PySparkException):
            refused += 1
            assert state(spark, place) == before, statement
    assert 0 < refused < number
    for row in spark.sql("SHOW STREAM TABLES").collect():
        if row["last_action"] is not None and row["status"] == "ACTIVE":
            verdict = spark.sql(f"VERIFY STREAM TABLE {row['name']}").first()
            assert verdict is not None
            assert verdict["ok"], verdict


@pytest.mark.timeout(900)
def test_slips_do_no_harm(spark: SparkSession, place: Path) -> None:
    check(spark, place, seed=1, number=25)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 130))
def test_slips_do_no_harm_for_long(spark: SparkSession, place: Path, seed: int) -> None:
    check(spark, place, seed=seed, number=100)
