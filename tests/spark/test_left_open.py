"""Values that Spark leaves open: which of equal rows comes first, and how a sum of floating numbers is rounded. A refresh never depends on one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.oracle.comparison import assert_exact
from tests.oracle.scenario import dropped, planned_once
from tests.spark.statements import done

from streamtable.errors import NotIncremental

OF_GROUPS = "SELECT id, g, sum(d) OVER (PARTITION BY g) AS s FROM floats"
OF_PEERS = "SELECT id, g, sum(d) OVER (PARTITION BY g ORDER BY id % 3) AS s FROM floats"
EXACT = {
    "a maximum of sums": f"SELECT g, max(s) AS m FROM ({OF_GROUPS}) GROUP BY g",
    "groups by sums": f"SELECT s, count(*) AS n FROM ({OF_GROUPS}) GROUP BY s",
    "a filter by sums": f"SELECT id FROM ({OF_GROUPS}) WHERE s > 94.9999",
    "a maximum of sums of peers": f"SELECT g, max(s) AS m FROM ({OF_PEERS}) GROUP BY g",
    "sums of peers": f"SELECT * FROM ({OF_PEERS}) WHERE s > 90",
}
LOOKED_AT = {
    "a maximum": f"SELECT max(s) AS m FROM ({OF_PEERS}) GROUP BY g",
    "a filter": f"SELECT id FROM ({OF_PEERS}) WHERE s > 90",
}


@pytest.fixture(scope="module")
def floats(spark: SparkSession) -> Iterator[SparkSession]:
    with planned_once(spark):
        spark.sql("CREATE DATABASE left_open")
        spark.sql("USE left_open")
        tenths = "CAST(id AS INT) AS id, CAST(id % 50 AS INT) AS g, id * 0.1D AS d"
        spark.sql(f"CREATE TABLE floats USING delta AS SELECT /*+ REPARTITION(4) */ {tenths} FROM range(1000)")
        yield spark
    dropped(spark, "left_open")


def test_a_sum_of_a_window_is_rounded_as_it_was_before(floats: SparkSession) -> None:
    """The rows before a change are added up once more. Where the order differed, a group kept the sum that it had lost."""
    for n, query in enumerate(EXACT.values()):
        floats.sql(f"CREATE STREAM TABLE rounded_{n} REFRESH MODE DIFFERENTIAL AS {query}")
    shuffled = floats.conf.get("spark.sql.shuffle.partitions") or "1"
    try:
        floats.conf.set("spark.sql.shuffle.partitions", "7")
        floats.sql("DELETE FROM floats WHERE id >= 900")
        floats.sql("OPTIMIZE floats")
        for n, query in enumerate(EXACT.values()):
            assert done(floats, f"REFRESH STREAM TABLE rounded_{n}")[0] == "DIFFERENTIAL"
            assert floats.sql(f"VERIFY STREAM TABLE rounded_{n}").collect()[0]["ok"], query
    finally:
        floats.conf.set("spark.sql.shuffle.partitions", shuffled)


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_sum_of_peers_is_not_looked_at(floats: SparkSession, name: str) -> None:
    with pytest.raises(NotIncremental, match="rounding depends on the order of equal rows"):
        floats.sql(f"CREATE STREAM TABLE looked_at REFRESH MODE DIFFERENTIAL AS {LOOKED_AT[name]}")


def test_equal_values_that_are_not_the_same_are_ordered(floats: SparkSession) -> None:
    """The two zeros are equal to ORDER BY, and so are spellings under a collation: of rows with both, any was taken."""
    floats.sql("CREATE TABLE zeros (k INT, z DOUBLE, m MAP<INT, INT>) USING delta")
    floats.sql("INSERT INTO zeros VALUES (1, 0.0D, map(1, 1, 2, 2)), (2, 0.0D, map(2, 2, 1, 1))")
    first = "SELECT CAST(z AS STRING) AS z, to_json(m) AS m FROM (SELECT z, m FROM zeros ORDER BY z LIMIT 1)"
    best = "SELECT max_by(CAST(z AS STRING), 1) AS c, CAST(max_by(z, 1) AS STRING) AS z, to_json(max_by(m, 1)) AS m FROM zeros"
    floats.sql(f"CREATE STREAM TABLE first_zero AS {first}")
    floats.sql(f"CREATE STREAM TABLE best_zero AS {best}")
    before = [floats.sql(f"SELECT * FROM {table}").collect() for table in ("first_zero", "best_zero")]
    floats.sql("INSERT OVERWRITE zeros SELECT k, z, m FROM zeros ORDER BY k DESC")
    floats.sql("INSERT INTO zeros VALUES (0, -0.0D, map(3, 3))")
    for table in ("first_zero", "best_zero"):
        floats.sql(f"REFRESH STREAM TABLE {table}")
        assert floats.sql(f"VERIFY STREAM TABLE {table}").collect()[0]["ok"], table
    assert floats.sql("SELECT z FROM first_zero").collect()[0][0] == "-0.0", "the lesser zero is the first"
    assert before[0][0]["m"] == '{"1":1,"2":2}'


def test_encryption_that_draws_a_vector_is_volatile(floats: SparkSession) -> None:
    floats.sql("CREATE TABLE secrets USING delta AS SELECT CAST(id AS INT) AS k, 'a' AS v FROM range(2)")
    with pytest.raises(NotIncremental, match="volatile expression"):
        floats.sql(
            "CREATE STREAM TABLE drawn REFRESH MODE DIFFERENTIAL AS SELECT k, aes_encrypt(v, '0000111122223333') AS c FROM secrets"
        )
    given = "aes_encrypt(v, '0000111122223333', 'ECB') AS e, aes_encrypt(v, '0000111122223333', 'GCM', 'DEFAULT', unhex(repeat('00', 12))) AS g"
    floats.sql(f"CREATE STREAM TABLE told AS SELECT k, {given} FROM secrets")
    floats.sql("DELETE FROM secrets WHERE k = 1")
    assert done(floats, "REFRESH STREAM TABLE told")[0] == "DIFFERENTIAL"
    assert_exact(floats, "told", f"SELECT k, {given} FROM secrets")
