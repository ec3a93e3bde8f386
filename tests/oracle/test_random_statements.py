"""Statements with random slips: each does what it says or is refused for a reason; no internal error, nothing half made."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.statements import close_cursors
from tests.unit.grammar import statements_of

from streamtable.errors import InternalError, StreamTableError
from streamtable.language.parse import parse
from streamtable.language.subscribe.ast import CopyToStdout, Fetch, Subscribe

STATEMENTS = (
    "CREATE STREAM TABLE new SCHEDULE '5m' REFRESH MODE DIFFERENTIAL AS SELECT k, count(*) AS n FROM l GROUP BY k",
    "CREATE OR REPLACE STREAM TABLE a (x COMMENT 'key', y) SCHEDULE CRON '*/5 * * * *' AT TIME ZONE 'Europe/Berlin' AS SELECT k, v FROM l",
    "CREATE STREAM TABLE IF NOT EXISTS new REFRESH MODE AUTO WITH NO DATA PARTITIONED BY (k) COMMENT 'c' AS SELECT k, v FROM l WHERE v > 1",
    "CREATE STREAM TABLE new CLUSTER BY (k) TBLPROPERTIES ('owner' = 'me') AS SELECT l.k, w FROM l JOIN r ON l.k = r.k",
    "CREATE STREAM TABLE new AS SELECT k, sum(n) OVER (ORDER BY k) AS s FROM a WHERE k IN (SELECT k FROM r) ORDER BY k LIMIT 3",
    "ALTER STREAM TABLE a SET SCHEDULE '1h30m'",
    "ALTER STREAM TABLE a SET REFRESH MODE FULL",
    "ALTER STREAM TABLE a SET STATE NONE",
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
    with tables(spark) as folder:
        yield folder


@contextmanager
def tables(spark: SparkSession) -> Iterator[Path]:
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
    try:
        yield Path(where.removeprefix("file:"))
    finally:
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE {name} CASCADE")


def state(spark: SparkSession, place: Path) -> tuple[set[str], set[str], list[tuple[object, ...]]]:
    """Return what a statement that fails must leave alone."""
    listed = {row["tableName"] for row in spark.sql("SHOW TABLES").collect()}
    listed_tables = spark.sql("SHOW STREAM TABLES").drop("staleness_seconds", "state")  # time passes
    definitions = [tuple(row) for row in listed_tables.collect()]
    return listed, {each.name for each in place.iterdir()}, definitions


def check(spark: SparkSession, place: Path, statements: Sequence[str]) -> int:
    """Run them one after the other; return how many were refused."""
    refused = 0
    for statement in statements:
        before = state(spark, place)
        try:
            spark.sql(statement).collect()
        except (StreamTableError, PySparkException) as error:
            if isinstance(error, InternalError) or (error.getCondition() or "").startswith("INTERNAL_ERROR"):
                raise AssertionError(f"{statement}\n{error}") from error
            refused += 1
            assert state(spark, place) == before, statement
    close_cursors()
    for row in spark.sql("SHOW STREAM TABLES").collect():
        if row["last_action"] is not None and row["status"] == "ACTIVE":
            verdict = spark.sql(f"VERIFY STREAM TABLE {row['name']}").first()
            assert verdict is not None
            assert verdict["ok"], verdict
    return refused


def check_slips(spark: SparkSession, place: Path, seed: int, number: int) -> None:
    rnd = random.Random(seed)
    assert 0 < check(spark, place, [slipped(rnd, rnd.choice(STATEMENTS)) for _ in range(number)]) < number


@pytest.mark.timeout(900)
def test_slips_do_no_harm(spark: SparkSession, place: Path) -> None:
    check_slips(spark, place, seed=1, number=15)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(100, 130))
def test_slips_do_no_harm_for_long(spark: SparkSession, place: Path, seed: int) -> None:
    check_slips(spark, place, seed=seed, number=100)


WORDS = {
    "NAME": ("l", "r", "a", "b", "p", "q", "main"),
    "BACKQUOTED": ("`a`", "`l`"),
    "STRING": ("'5m'", "'*/5 * * * *'", "'database=default'", "'Europe/Berlin'", "'1s'", "'k'", "'true'"),
    "INTEGER": ("0", "1", "20"),
    "WHOLE": ("0", "7"),
    "NUMBER": ("1", "-2.5"),
    "SIGN": ("+", "-"),
    "QUERY": ("SELECT k, v FROM l", "SELECT k, n FROM a WHERE n > 1", "SELECT k, count(*) AS n FROM l JOIN r USING (k) GROUP BY k"),
    "MASKED": ("(SELECT k FROM r)", "(k > 1)"),
}


def ends(text: str) -> bool:
    """Leave out what waits for rows that nobody brings."""
    try:
        return not isinstance(parse(text), (Subscribe, CopyToStdout, Fetch))
    except StreamTableError:
        return True


DRAWN = st.lists(statements_of(WORDS).filter(ends), min_size=50, max_size=50, unique=True)


@pytest.mark.timeout(900)
@settings(max_examples=1, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(statements=DRAWN)
def test_statements_of_the_grammar_do_no_harm(spark: SparkSession, statements: list[str]) -> None:
    with tables(spark) as place:
        some = statements[:25]
        assert 0 < check(spark, place, some) < len(some)


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@settings(max_examples=40, phases=[Phase.generate], suppress_health_check=list(HealthCheck), print_blob=True)
@given(statements=DRAWN)
def test_statements_of_the_grammar_do_no_harm_for_long(spark: SparkSession, statements: list[str]) -> None:
    with tables(spark) as place:
        check(spark, place, statements)
